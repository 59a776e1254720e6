// Package wait has what goroutines need to wait without a loss of time or of cores: a Bell, which
// wakes one that sleeps; a Backoff, the pause between two attempts; and Contention, which says
// whether a thread that polls should spin or sleep.
package wait
