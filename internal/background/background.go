// Package background lets goroutines that work beside the loop give way to it where processors are short: those that move the blocks of large
// messages, and those that write logs.
package background
