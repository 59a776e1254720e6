package rtps_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds/rtps"
)

func TestTypesAreReadFromTheirDescriptions(t *testing.T) {
	const text = "M::Everything { @key long userID; string<20> name; sequence<octet, 16> blob; unsigned long long big[3]; @key string<8> id; sequence<double> xs; boolean on; }"
	kind, err := rtps.ParseType(text)
	if err != nil || kind.Name() != "M::Everything" {
		t.Fatalf("%v, %v", kind, err)
	}
	for fault, want := range map[string]string{
		"long x;":                       "braces",
		"T {}":                          "no members",
		"T { long }":                    "no type",
		"T { quad x; }":                 "quad",
		"T { sequence<T> x; }":          "no type of a member",
		"T { long x[0]; }":              "elements",
		"T { string<none> x; }":         "bound",
		"T { @key sequence<octet> x; }": "keys",
	} {
		if _, err := rtps.ParseType(fault); !errors.Is(err, rtps.ErrType) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", fault, err)
		}
	}
}
