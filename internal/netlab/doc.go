// Package netlab makes hosts on one machine: network namespaces on a bridge, each behind a link of
// its own with a limited rate.
//
// Life of a lab: New makes a namespace for the bridge and one for each host → links are made, and
// limited both ways → neighbour tables are filled, so that no host has to ask → processes run on
// hosts, links get slower, hosts are cut off and healed → Close.
//
// The namespaces have no names. Each is there as long as this process has its file open or a
// process runs in it, so whatever this process dies of, nothing stays behind, and labs of several
// processes cannot meet. Nothing is made in the namespace that this process is in.
//
// A link's limit is a token bucket at each end, the host's and the bridge's, with a queue of a
// bounded length: what does not fit is lost, as it would be in a switch. TCP gets 95.6 % of the
// rate; the rest is headers. There is no delay but that of the queues.
//
// A cut is an entry in the neighbour table that sends packets for another host to an unused
// address, where the bridge drops them. So a cut can affect one direction only, and the sockets at
// both ends report no error.
package netlab
