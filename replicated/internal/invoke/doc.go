// Package invoke is what the callers of operations and the objects that they are called on agree
// on. Package replicated has the callers: commands, queries and the objects of clients. Package
// member has the objects of members. Neither of a caller and its target knows the type of the other
// one.
//
// Life of a command: Target.Now says where it is called → Target.Command takes its Encoder and its
// Pending → the target encodes the arguments → the order → Pending.Complete, with the Outcome →
// Pending.Signal.
//
// Clients and objects have the same words for what comes back: how a record ended (Status), what a
// member answered (Reply), and events with their places (Cursor).
//
// A caller and a handler in one process pass values without encoding them, where their types agree:
// Pending.Typed and Reading.Typed return a pointer of a type of this package, which the handler's
// side recognises.
package invoke
