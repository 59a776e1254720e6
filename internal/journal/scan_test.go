package journal

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

var (
	scanOrigin = Origin{Cluster: "prices", Node: 7, Log: "ticks", Shard: 1}
	scanKey    = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, ed25519.SeedSize))
	otherKey   = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{4}, ed25519.SeedSize))
)

func publicOf(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// grow appends records to a log, a group for every seven; every tenth is large enough for
// fragments.
func grow(t *testing.T, m *memory, key ed25519.PrivateKey, from, to int) {
	t.Helper()
	b, _, err := OpenBook(m, "ticks")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Block: 1024, After: b.End()}
	if key != nil {
		c.Chain = NewChain(scanOrigin, key, b.End().Head)
	}
	j := New(c)
	for i := from; i < to; i++ {
		data := bytes.Repeat([]byte{byte(i)}, 50)
		if i%10 == 9 {
			data = bytes.Repeat([]byte{byte(i)}, 3000)
		}
		r := Record{Version: order.Version{View: order.ViewID(1 + i/25), Seq: order.Seq(i)}, Time: order.Time(1000 + i), Sender: order.NodeID(i % 3), Data: data}
		if !j.Append(&r) {
			t.Fatal("no space")
		}
		if i%7 == 6 || i == to-1 {
			err := m.StoreLogs(slices.Clone(j.Next()))
			if j.Written(err); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// kept is a copy of what a store has: the journal uses its memory again.
func scanned(t *testing.T, s Store, key ed25519.PublicKey) (found Scanned, faults []string, records []Record) {
	t.Helper()
	found, err := Scan{
		Name: "ticks", Origin: scanOrigin, Key: key,
		Record: func(r Record) { r.Data = bytes.Clone(r.Data); records = append(records, r) },
		Fault:  func(d *Damage) { faults = append(faults, d.Error()) },
	}.Read(s)
	if err != nil {
		t.Fatal(err)
	}
	return found, faults, records
}

func TestAScanReadsWhatWasWritten(t *testing.T) {
	for _, key := range []ed25519.PrivateKey{nil, scanKey} {
		m := newMemory()
		grow(t, m, key, 0, 60)
		found, faults, records := scanned(t, m, publicOf(scanKey))
		if len(faults) > 0 || found.Records != 60 || len(records) != 60 || found.First.Number != 0 || found.Last.Number != 59 {
			t.Fatalf("%d records from %v to %v: %v", found.Records, found.First, found.Last, faults)
		}
		for i, r := range records {
			if want := 50; i%10 == 9 && len(r.Data) != 3000 || i%10 != 9 && len(r.Data) != want || r.Data[0] != byte(i) {
				t.Errorf("%v", r)
			}
		}
		if want := uint64(60); key != nil && (found.Sealed != want || found.Vouched != want) || key == nil && found.Sealed+found.Vouched != 0 {
			t.Errorf("%d sealed, %d vouched for", found.Sealed, found.Vouched)
		}
	}
}

// What was written as usual but not signed, or with another key or for another log, is no record of
// this member's.
func TestAnotherKeysSignatureIsFound(t *testing.T) {
	m := newMemory()
	grow(t, m, otherKey, 0, 20)
	if _, faults, _ := scanned(t, m, publicOf(scanKey)); len(faults) == 0 || !strings.Contains(faults[0], "signature") {
		t.Errorf("%v", faults)
	}
	if found, faults, _ := scanned(t, m, nil); len(faults) > 0 || found.Vouched != 0 {
		t.Errorf("without a key: %v", faults)
	}
	o := scanOrigin
	o.Shard++
	s := Seal{}
	copy(s.Signature[:], ed25519.Sign(scanKey, o.message(9, s.After)))
	if scanOrigin.Vouches(publicOf(scanKey), 9, &s) || !o.Vouches(publicOf(scanKey), 9, &s) || o.Vouches(publicOf(scanKey), 8, &s) {
		t.Error("a signature is not that of its log and place alone")
	}
}

func TestTheChainSurvivesCutsDropsAndAnUnsignedStretch(t *testing.T) {
	m := newMemory()
	grow(t, m, scanKey, 0, 40)
	b, _, err := OpenBook(m, "ticks")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.CutFrom(31); err != nil {
		t.Fatal(err)
	}
	if err := b.DropBefore(12); err != nil {
		t.Fatal(err)
	}
	grow(t, m, scanKey, 31, 50)
	found, faults, _ := scanned(t, m, publicOf(scanKey))
	if len(faults) > 0 || found.Vouched != found.Records || found.Begin == (Head{}) || found.First.Number == 0 || found.Last.Number != 49 {
		t.Errorf("%+v: %v", found, faults)
	}
	grow(t, m, nil, 50, 60)
	grow(t, m, scanKey, 60, 70)
	found, faults, _ = scanned(t, m, publicOf(scanKey))
	if len(faults) > 0 || found.Vouched != found.Records-10 {
		t.Errorf("%+v: %v", found, faults)
	}
}

// The chain detects a forgery with correct checksums: the record that was changed, left out or
// moved had been hashed.
func TestWhatWasChangedWithRightChecksumsIsFound(t *testing.T) {
	clean := newMemory()
	grow(t, clean, scanKey, 0, 60)
	for i := range clean.logs {
		m := clean.copy()
		p, err := decode(bytes.Clone(m.logs[i].Data))
		if err != nil {
			t.Fatal(err)
		}
		p.body[recordBytes]++ // the first byte of the first record's data
		stamp(p.body)
		m.logs[i].Data = encodeHeader(append(make([]byte, bodyAt(true)), p.body...), &p.Header, p.nodes())
		if _, faults, _ := scanned(t, m, publicOf(scanKey)); len(faults) == 0 {
			t.Errorf("block %d: not found", i+1)
		}
	}
}

// Behind a damaged block the scan goes on, and what it says names the block.
func TestAScanGoesOnBehindWhatIsDamaged(t *testing.T) {
	clean := newMemory()
	grow(t, clean, scanKey, 0, 60)
	whole, _, _ := scanned(t, clean, nil)
	for i := range clean.logs {
		h, err := Look(clean.logs[i].Data)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(clean.logs[i].Data); at += 37 {
			m := clean.copy()
			m.logs[i].Data = bytes.Clone(m.logs[i].Data)
			m.logs[i].Data[at] ^= 4
			found, faults, _ := scanned(t, m, publicOf(scanKey))
			if len(faults) == 0 || found.Records+30 < whole.Records {
				t.Fatalf("block %d byte %d: %d records, %v", i+1, at, found.Records, faults)
			}
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, fmt.Sprintf("block %d,", i+1)) }) && at != 4 {
				t.Fatalf("block %d byte %d: %v", i+1, at, faults)
			}
			if at == 0 && h.Kind == Fragment && h.Part+1 == h.Parts && len(faults) != 1 {
				t.Fatalf("block %d, the end of a record, is damage %d times: %v", i+1, len(faults), faults)
			}
		}
	}
}

func TestABlockThatIsMissingOrMovedIsFound(t *testing.T) {
	clean := newMemory()
	grow(t, clean, nil, 0, 60)
	for i := 1; i < len(clean.logs)-1; i++ {
		m := clean.copy()
		m.logs[i], m.logs[i+1] = m.logs[i+1], m.logs[i]
		if _, faults, _ := scanned(t, m, nil); len(faults) == 0 {
			t.Errorf("blocks %d and %d: not found", i+1, i+2)
		}
		m = clean.copy()
		m.logs[i] = Entry{}
		if _, faults, _ := scanned(t, m, nil); len(faults) == 0 {
			t.Errorf("block %d: not found", i+1)
		}
	}
}
