package main

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The loads of messages: there and back one at a time, as fast as they are received, and the same
// of long ones.
const (
	trips      = "round trips"
	oneWay     = "one way"
	intoWindow = "into a window"
)

// ucxRates are the messages in a second by which the number of iterations follows from a time: what
// ucx_perftest does on a slow machine.
var ucxRates = map[string]float64{"shm " + trips: 1e6, "tcp " + trips: 8e4, "shm " + oneWay: 3e6, "tcp " + oneWay: 5e5, "shm " + intoWindow: 20}

// measureUCX runs ucx_perftest, of the Debian package ucx-utils, with active messages.
func measureUCX(fabric, load string, size int, d time.Duration) (r result, err error) {
	rate := ucxRates[fabric+" "+load]
	if rate == 0 {
		return r, fmt.Errorf("UCX: no measurement of %s over %s", load, fabric)
	}
	test, transport := "ucp_am_lat", "posix,self"
	if load != trips {
		test = "ucp_am_bw"
	}
	if fabric == "tcp" {
		transport = "tcp,self"
	}
	port, err := freePort()
	if err != nil {
		return r, err
	}
	perftest := func(args ...string) *exec.Cmd {
		cmd := exec.Command("ucx_perftest", args...)
		cmd.Env = append(os.Environ(), "UCX_TLS="+transport)
		return cmd
	}
	server := perftest("-p", port)
	if err := server.Start(); err != nil {
		return r, fmt.Errorf("install the Debian package ucx-utils: %w", err)
	}
	defer func() {
		if err != nil {
			server.Process.Kill()
		}
		server.Wait() // it ends with the client
	}()
	least := 1000
	if load == intoWindow {
		least = 10
	}
	count := max(least, int(rate*d.Seconds()))
	args := []string{"127.0.0.1", "-p", port, "-t", test, "-s", strconv.Itoa(size), "-n", strconv.Itoa(count), "-w", strconv.Itoa(count / 5), "-f", "-v"}
	out, err := perftest(args...).Output()
	for deadline := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond) // the server is not listening yet
		out, err = perftest(args...).Output()
	}
	if err != nil {
		return r, fmt.Errorf("ucx_perftest: %w", err)
	}
	return parseUCX(string(out), load)
}

// parseUCX takes the means of the whole run from two lines of comma-separated values. Tests of
// latency report half a round trip.
func parseUCX(out, load string) (r result, err error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) < 2 {
		return r, fmt.Errorf("ucx_perftest printed %.200q", out)
	}
	names, values := strings.Split(lines[len(lines)-2], ","), strings.Split(lines[len(lines)-1], ",")
	if len(names) != len(values) {
		return r, fmt.Errorf("ucx_perftest printed %.200q", out)
	}
	for i, name := range names {
		v, failed := strconv.ParseFloat(values[i], 64)
		switch name {
		case "overall_lat":
			r.P50, err = 2*v, errors.Join(err, failed)
		case "overall_mr":
			r.Rate, err = v, errors.Join(err, failed)
		}
	}
	if err == nil && (r.Rate <= 0 || load == trips && r.P50 <= 0) {
		err = fmt.Errorf("ucx_perftest printed %.200q", out)
	}
	r.OK = err == nil
	return r, err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

//go:embed zeromq/oneway.c
var zeroMQSource []byte

// measureZeroMQ compiles the program in C, with the Debian package libzmq3-dev, and runs it.
func measureZeroMQ(load string, size int, d time.Duration) (r result, err error) {
	if load != oneWay {
		return r, fmt.Errorf("ZeroMQ: no measurement of %s", load)
	}
	dir, err := os.MkdirTemp("", "rpcpeers")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	source, program := filepath.Join(dir, "oneway.c"), filepath.Join(dir, "oneway")
	if err := os.WriteFile(source, zeroMQSource, 0o600); err != nil {
		return r, err
	}
	if text, err := exec.Command("cc", "-O2", "-o", program, source, "-lzmq").CombinedOutput(); err != nil {
		return r, fmt.Errorf("install a C compiler and the Debian package libzmq3-dev: %w: %.200s", err, text)
	}
	out, err := exec.Command(program, filepath.Join(dir, "socket"), strconv.Itoa(size), strconv.FormatFloat(d.Seconds(), 'f', -1, 64)).Output()
	if err != nil {
		return r, fmt.Errorf("ZeroMQ: %w", err)
	}
	r.Rate, err = strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	r.OK = err == nil
	return r, err
}
