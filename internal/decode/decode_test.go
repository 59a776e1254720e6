package decode

import (
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// changer overwrites what is decoded after it.
type changer struct{ from []byte }

func (c *changer) UnmarshalCBOR([]byte) error {
	for i := range c.from {
		c.from[i] = 0x5b // byte strings with lengths of eight bytes, all too long
	}
	return nil
}

func TestWhatChangesMeanwhileIsDecodedAsItWas(t *testing.T) {
	type value struct {
		First *changer
		Name  string
		All   []uint64
	}
	data, err := cbor.Marshal(map[string]any{"First": 1, "Name": "as it was", "All": []uint64{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	c := New(cbor.DecOptions{})
	for range 2 { // the second time with a copy's memory from before
		changing := append([]byte(nil), data...)
		v := value{First: &changer{changing}}
		if err := c.Unmarshal(changing, &v); err != nil || v.Name != "as it was" || len(v.All) != 3 || v.All[2] != 3 {
			t.Errorf("%v, %q, %v", err, v.Name, v.All)
		}
		if changing[0] != 0x5b {
			t.Error("nothing was changed meanwhile")
		}
	}
}
