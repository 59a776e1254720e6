//go:build race

package squall_test

const raceEnabled = true
