// Package background lets goroutines that work beside the loop give way to it where processors are
// short: goroutines that move the blocks of large messages, and goroutines that write logs.
package background
