package member_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// readingDone is a query of a member process.
type readingDone struct {
	Began int64 // in nanoseconds of the host's wall clock
	Total int64
}

// readOn has queries run at a member, one after the other on each of some goroutines, and tells the
// parent of each until one fails.
func readOn(ctx context.Context, p *proc.Parent, bank *member.Object[*bank]) {
	var mu sync.Mutex
	for range 4 {
		go func() {
			for {
				began := time.Now()
				n, err := total.Call(ctx, bank, "account")
				if err != nil {
					return
				}
				mu.Lock()
				err = p.Send(readingDone{began.UnixNano(), n})
				mu.Unlock()
				if err != nil {
					return
				}
			}
		}()
	}
}

// deposited is the total of an account, and when it was known that it had come to that.
type deposited struct{ total, at int64 }

// TestAMemberThatIsStoppedConfirmsNothingOld stops a member that runs queries, with SIGSTOP, while
// the others remove it and execute commands. When it goes on, it answers no query with what it had.
func TestAMemberThatIsStoppedConfirmsNothingOld(t *testing.T) {
	t.Parallel()
	for name, tcp := range map[string]bool{"shm": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tcp, false, func(s *memberSpec) { s.FailAfter, s.Reads = 500*time.Millisecond, s.ID != 1 })
			client := dial(t, replicated.ClientConfig{Addresses: f.clients()[:1]})
			var mu sync.Mutex
			calls := 0
			history := []deposited{{}}
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer stop()
			wg.Go(func() {
				for ctx.Err() == nil {
					calling, cancel := context.WithTimeout(context.Background(), 30*time.Second)
					n, err := deposit.Call(calling, client.Object("accounts"), depositArgs{"account", 1})
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					history = append(history, deposited{n, time.Now().UnixNano()})
					calls++
					mu.Unlock()
				}
			})
			for lap := range *kills / 2 {
				victim := 1 + lap%2
				read, ended := make(chan int, 1), make(chan struct{})
				var began, after int64
				go func() {
					defer close(ended)
					n := 0
					for {
						var r readingDone
						if err := f.all[victim].Receive(t.Context(), &r); err != nil {
							return // it was removed
						}
						mu.Lock()
						i, _ := slices.BinarySearchFunc(history, r.Began, func(d deposited, t int64) int { return int(min(max(d.at-t, -1), 1)) })
						due := history[max(i-1, 0)].total
						if began != 0 && r.Began > began {
							after++
						}
						mu.Unlock()
						if r.Total < due {
							t.Errorf("a query read %d, and %d had been deposited before it began", r.Total, due)
						}
						if n++; n == 100 {
							read <- n
						}
					}
				}()
				<-read
				if err := f.all[victim].Stop(); err != nil {
					t.Fatal(err)
				}
				awaitCalls(t, &mu, &calls, 20) // the view without it
				awaitCalls(t, &mu, &calls, 100)
				mu.Lock()
				began = time.Now().UnixNano()
				mu.Unlock()
				if err := f.all[victim].Continue(); err != nil {
					t.Fatal(err)
				}
				<-ended
				mu.Lock()
				t.Logf("%d queries that began after it went on were answered", after)
				mu.Unlock()
				f.specs[victim].ID += 10
				f.start(victim)
				f.ready(victim)
			}
		})
	}
}

// A client leaves a member that is stopped, with SIGSTOP: a command, a query and a watch that wait
// for it go on with another member, which is the only way in which they end here. The command is
// executed once, and the session goes on.
func TestAClientLeavesAMemberThatIsStopped(t *testing.T) {
	t.Parallel()
	for name, tcp := range map[string]bool{"shm": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tcp, false, func(s *memberSpec) { s.FailAfter = 500 * time.Millisecond })
			client := dial(t, replicated.ClientConfig{Addresses: f.clients(), Seed: 1, MemberTimeout: time.Second})
			bank := client.Object("accounts")
			ctx := testutil.Within(t)
			const before, atOnce, after = 3, 5, 2 * invoke.MaxOutstanding
			for range before {
				if _, err := deposit.Call(ctx, bank, depositArgs{public, 1}); err != nil {
					t.Fatal(err)
				}
			}
			seen := make(chan int)
			watching, stop := context.WithCancel(ctx)
			go func() {
				defer close(seen)
				for _, err := range replicated.Watch(watching, bank, replicated.Cursor{}, "") {
					if err != nil {
						return
					}
					select {
					case seen <- 1:
					case <-watching.Done():
						return
					}
				}
			}()
			<-seen
			if err := f.all[0].Stop(); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range atOnce {
				wg.Go(func() {
					if _, err := deposit.Call(ctx, bank, depositArgs{public, 1}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Go(func() {
				if _, err := balance.Call(ctx, bank, public); err != nil {
					t.Error(err)
				}
			})
			for range before - 1 + atOnce {
				if <-seen == 0 {
					t.Fatal("the watch ended")
				}
			}
			wg.Wait()
			stop()
			for range after {
				if _, err := deposit.Call(ctx, bank, depositArgs{public, 1}); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := balance.Call(ctx, bank, public); n != before+atOnce+after || err != nil {
				t.Errorf("the balance is %d, %v", n, err)
			}
		})
	}
}

// BenchmarkSilenceOfAMember reports for how long a client that calls one command after the other
// has no answer, at most, when its member is stopped for 12 s with SIGSTOP, or when nothing passes
// between the two for 12 s: FailAfter and MemberTimeout are a second.
func BenchmarkSilenceOfAMember(b *testing.B) {
	for _, of := range []struct {
		name     string
		tcp, cut bool
	}{{"stopped/shm", false, false}, {"stopped/tcp", true, false}, {"cut off/tcp", true, true}} {
		b.Run(of.name, func(b *testing.B) {
			longest := time.Duration(0)
			for range b.N {
				f := newFleet(b, of.tcp, false, func(s *memberSpec) { s.FailAfter = time.Second })
				cfg := replicated.ClientConfig{Addresses: f.clients(), Seed: 1, MemberTimeout: time.Second}
				silence, mend := f.all[0].Stop, f.all[0].Continue
				if of.cut {
					l := newLine(b, cfg.Addresses[0])
					cfg.Addresses[0], cfg.Endpoint.Transport = l.listener.Addr().String(), ripc.TransportTCP
					silence, mend = func() error { l.hush(true); return nil }, func() error { l.hush(false); return nil }
				}
				bank := dial(b, cfg).Object("accounts")
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				defer cancel()
				last, end := time.Now(), time.Time{}
				for n := 0; end.IsZero() || last.Before(end); n++ {
					if n == 100 {
						if err := silence(); err != nil {
							b.Fatal(err)
						}
						end = last.Add(12 * time.Second)
					}
					if _, err := deposit.Call(ctx, bank, depositArgs{public, 1}); err != nil {
						b.Fatal(err)
					}
					now := time.Now()
					longest, last = max(longest, now.Sub(last)), now
				}
				if err := mend(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(longest.Milliseconds()), "ms-of-silence")
			b.ReportMetric(0, "ns/op")
		})
	}
}
