package main

import "testing"

func TestParseUCXTakesTheMeansOfTheRun(t *testing.T) {
	const head = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
	r, err := parseUCX(head+"2000,0.711,166.3,4.5,0.37,0.37,6011,7000\n", trips)
	if err != nil || !r.OK || r.P50 != 9 || r.Rate != 7000 {
		t.Errorf("%+v, %v: a test of latency reports half a round trip", r, err)
	}
	for _, out := range []string{"", "one line", head + "2000,0.7\n", head + "2000,a,b,c,d,e,f,g\n", head + "2000,0,0,0,0,0,0,0\n"} {
		if r, err := parseUCX(out, oneWay); err == nil || r.OK {
			t.Errorf("%q: %+v, %v", out, r, err)
		}
	}
}
