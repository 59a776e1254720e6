//go:build race

package dds_test

const raceEnabled = true
