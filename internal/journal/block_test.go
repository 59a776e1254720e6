package journal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/squall-go/squall/order"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenBlocks are one of each kind.
func goldenBlocks() (blocks [][]byte) {
	s := newMemory()
	j := New(Config{Block: minBlockBytes, After: End{Block: 6, Bytes: 77, Records: 40, Version: order.Version{View: 2, Seq: 9}, Time: 1000}})
	for i, text := range []string{"one", "", "three"} {
		j.Append(&Record{Version: order.Version{View: 3, Seq: order.Seq(2 * i)}, Time: 5000, Sender: order.NodeID(7 - i%2), Data: []byte(text)})
	}
	j.Append(&Record{Version: order.Version{View: 4}, Sender: 7, Data: bytes.Repeat([]byte("squall "), 60)})
	for flush(j, s) {
	}
	signed := New(Config{Block: minBlockBytes, After: End{Block: 10},
		Chain: NewChain(Origin{Cluster: "c", Node: 7, Log: "l"}, ed25519.NewKeyFromSeed(make([]byte, 32)), Head{})})
	signed.Append(&Record{Version: order.Version{View: 1}, Time: 5, Sender: 7, Data: []byte("signed")})
	mark := newMemory()
	b, _, err := OpenBook(mark, "test")
	if err != nil {
		panic(err)
	}
	if err := b.Restart(End{Records: 40, Version: order.Version{View: 2, Seq: 9}, Time: 1000}); err != nil {
		panic(err)
	}
	for _, l := range s.logs {
		blocks = append(blocks, l.Data)
	}
	return append(blocks, mark.logs[0].Data, bytes.Clone(signed.Next()[0].Data))
}

func TestTheFormatOfBlocksIsTheGoldenOne(t *testing.T) {
	var have bytes.Buffer
	for _, b := range goldenBlocks() {
		have.WriteString(hex.Dump(b))
		have.WriteByte('\n')
	}
	path := filepath.Join("testdata", "blocks.golden")
	if *update {
		if err := os.WriteFile(path, have.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, have.Bytes()) {
		t.Fatalf("%v: blocks are written differently; if this is intended, the format needs a new number, and this test -update:\n%s", err, have.Bytes())
	}
}

func FuzzBlock(f *testing.F) {
	for _, b := range goldenBlocks() {
		f.Add(b)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		// With good checksums, too: what the fuzzer changes would hardly ever get further.
		stamped := bytes.Clone(b)
		if len(b) >= headerBytes {
			h, at := stamped, bodyAt(stamped[6]&flagSealed != 0)
			if body := int(uint32(h[120]) | uint32(h[121])<<8); at+body <= len(h) {
				sum := headerSum(h, at, body)
				h[124], h[125], h[126], h[127] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
			}
		}
		for _, b := range [][]byte{b, stamped} {
			p, err := decode(b)
			if err != nil {
				continue
			}
			for k := range p.at {
				if r := p.record(k); r.Version.View != p.View || len(r.Data) > len(b) {
					t.Fatalf("%v from %d bytes", r, len(b))
				}
			}
			for keep := range p.at {
				if q, err := decode(p.prefix(keep + 1)); p.Kind == Records && (err != nil || len(q.at) != keep+1 || q.fault != "") {
					t.Fatalf("the first %d records: %v %+v", keep+1, err, q)
				}
			}
		}
	})
}
