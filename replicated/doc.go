// Package replicated calls replicated objects of Go values: every member of a group has a copy of
// the value, and the commands that change it are executed by all of them in one order. The package
// has the operations, and the clients that call them from outside the group (Dial). It is built
// without package squall. A process that has a copy makes the object with package member, and calls
// the same operations on it.
//
//	var Deposit = replicated.NewCommand[DepositArgs, int64]("deposit")
//	var Balance = replicated.NewQuery[string, int64]("balance")
//
//	c, err := replicated.Dial(ctx, replicated.ClientConfig{ … })
//	n, err := Deposit.Call(ctx, c.Object("accounts"), DepositArgs{"ann", 100})
//
// # Queries
//
// A query reads the copy of the member that is asked. Query.Call is linearizable: it sees every
// command that was answered, to any caller anywhere, before the query began. Query.Local sees the
// copy as it is, and waits for nothing.
//
// # Shards
//
// An object in shards has a state for each shard, and operations whose key says which shard they
// are called on (Command.Keyed). Members and clients call every shard, wherever it is.
//
// # Clients
//
// A client opens a session with each object that it commands. The session is part of the replicated
// state: a command is executed once, whichever members the client sends it to, and its reply is
// kept until the client has received it (package machine, below, has the rules). A session ends
// when its client is silent for longer than its timeout, in the ordered time of the object.
//
// # Upgrades
//
// Members announce the operations that they can execute, and an operation is enabled once all
// members of a view can. Until then its calls fail with ErrUnknownOperation, before anything is
// ordered.
package replicated
