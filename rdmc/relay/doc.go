// Package relay is one node's part in one group of transfers, as a pure state machine.
package relay
