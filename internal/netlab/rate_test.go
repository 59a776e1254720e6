package netlab

import "testing"

func TestARateIsReadAndWritten(t *testing.T) {
	for text, want := range map[string]Rate{
		"400mbit": 400 * Mbit, "1gbit": Gbit, "500kbit": 500 * Kbit, "9bit": 9, "200": 200 * Mbit, "2.5Gbit": 2500 * Mbit, "1234567bit": 1234567,
	} {
		r, err := ParseRate(text)
		if err != nil || r != want {
			t.Errorf("%s: %d, %v", text, r, err)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Errorf("%s, written as %v: %d, %v", text, r, again, err)
		}
	}
	for _, text := range []string{"", "mbit", "-1mbit", "0", "2000gbit", "1tbit", "NaN", "inf"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q: %v", text, r)
		}
	}
}

func TestALabThatMakesNoSenseIsRefused(t *testing.T) {
	for _, c := range []Config{{}, {Hosts: 251}, {Hosts: 2, Rate: -1}, {Hosts: 2, QueueBytes: -1}} {
		if _, err := c.withDefaults(); err == nil {
			t.Errorf("%+v is fine", c)
		}
	}
}
