package objects

import (
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// The examples of RFC 8949, appendix A, in the notation of JSON.
func TestJSONIsConvertedToCBORAndBack(t *testing.T) {
	for text, want := range map[string]string{
		`0`: "00", `1000000`: "1a000f4240", `18446744073709551615`: "1bffffffffffffffff", `-1`: "20", `-18446744073709551616`: "3bffffffffffffffff",
		`18446744073709551616`: "c249010000000000000000", `1.5`: "f93e00", `1.1`: "fb3ff199999999999a", `true`: "f5", `null`: "f6",
		`"ü<"`: "63c3bc3c", `[]`: "80", `[1,[2,3]]`: "8201820203", `{"a":1,"b":[2,3]}`: "a26161016162820203",
		`{"$bytes":"AQIDBA=="}`: "4401020304", `{"$tag":32,"$value":"x"}`: "d8206178", `{"$bytes":1}`: "a1662462797465" + "7301",
	} {
		data, err := fromJSON(text)
		if got := hex.EncodeToString(data); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
			continue
		}
		back, err := toJSON(data)
		var was, is any
		if err != nil || json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal(back, &is) != nil || !reflect.DeepEqual(was, is) {
			t.Errorf("%s came back as %s, %v", text, back, err)
		}
	}
	if data, err := fromJSON("1e3"); err != nil || hex.EncodeToString(data) != "f963d0" {
		t.Errorf("an exponent: %x, %v", data, err)
	}
	for _, text := range []string{"", "ann", `{"a"`, "1 2", `{"$bytes":"?"}`, `[{"$bytes":"?"}]`, `{"$tag":-1,"$value":0}`, "1e999"} {
		if data, err := fromJSON(text); err == nil {
			t.Errorf("%q became %x", text, data)
		}
	}
}

func TestWhatOnlyCBORHasIsPrinted(t *testing.T) {
	for data, want := range map[string]string{
		"f97e00": `"NaN"`, "f97c00": `"+Inf"`, "f7": "null", "f0": "16", "a2016161206162": `{"-1":"b","1":"a"}`, "a1410163": "",
		"a1410101": `{"AQ==":1}`, "a201016131" + "02": "", "c11a514b67b0": `"2013-03-21T20:04:00Z"`, "63c3bc3c": `"ü<"`, "": "", "0101": "",
	} {
		b, err := hex.DecodeString(data)
		if err != nil {
			t.Fatal(err)
		}
		text, err := toJSON(b)
		got := strings.Join(strings.Fields(string(text)), "")
		if (want == "") != (err != nil) || got != want {
			t.Errorf("%s: %s, %v; want %s", data, got, err, want)
		}
	}
}
