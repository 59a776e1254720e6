// Package restart brings a group back after all of its members were down at once.
package restart
