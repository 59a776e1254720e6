// Package rdmc copies large messages from one node to many, each receiver passing on what it has.
package rdmc
