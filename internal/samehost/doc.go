// Package samehost connects processes of one host: abstract unix sockets, over which descriptors pass.
// The kernel tells each end which process and which user the other one is. Elsewhere than on Linux there
// is nothing of it.
package samehost
