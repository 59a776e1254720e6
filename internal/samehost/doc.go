// Package samehost connects processes of one host: abstract unix sockets, over which descriptors
// pass, and sealed segments of memory, whose descriptors do. The kernel tells each end of a socket
// which process and which user the other one is. Elsewhere than on Linux there is nothing of it.
package samehost
