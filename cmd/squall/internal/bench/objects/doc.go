// Package objects measures replicated objects and their clients: "squall bench objects".
//
// Three processes are the members of a group with one object, and further processes are its clients. Beside
// them stand messages of the same group without an object, round trips of sockets and, by another program, etcd,
// Redis and NATS JetStream with the same clients and values.
package objects
