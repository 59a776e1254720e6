//go:build !race

package ripc

const raceEnabled = false
