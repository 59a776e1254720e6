// Package replicated makes replicated objects of Go values: every member of a group has a copy of the value, and
// the commands that change it are executed by all of them in one order. Clients outside the group call the same
// operations (Dial).
//
//	var Deposit = replicated.NewCommand[DepositArgs, int64]("deposit")
//	var Balance = replicated.NewQuery[string, int64]("balance")
//
//	accounts := replicated.New(squall.SubgroupConfig{Name: "accounts"}, newBank,
//		replicated.Handle(Deposit, (*Bank).deposit),
//		replicated.Handle(Balance, (*Bank).balance))
//	g, err := replicated.Open(ctx, squall.Config{ … }, accounts)
//	n, err := Deposit.Call(ctx, accounts, DepositArgs{"ann", 100})
//
// An object is a subgroup of its group. All of the subgroup's modes and limits apply: a Persistent subgroup makes
// an object that survives the end of all its members.
//
// # Commands
//
// Life of a command: encoded → ordered (one message of the subgroup) → executed by every member, each on its own copy →
// answered, at the member that sent it. A handler must do the same everywhere: it takes the time and random numbers
// from its Context, and nothing from the clock, other goroutines or the order of a map. An error that a handler
// returns is a reply. A panic halts the group at the members where it happens (PanicError), with the command in
// the error.
//
// Everything of an object runs on the group's loop, or behind the queue of AsyncQueueBytes. A handler does not wait: a
// call within one fails with ErrInHandler. It sends: commands to other objects, which are executed once although every
// member executes the handler (Command.Send), messages (Context.Message), and tasks, which may wait (Context.Start).
//
// # Queries
//
// A query reads the copy of the member that is asked. Query.Call is linearizable: it sees every command that
// was answered, to any caller anywhere, before the query began. Query.Local sees the copy as it is, and waits for nothing.
//
// # Shards
//
// An object with SubgroupConfig.Shards has a state for each shard, and operations whose key says which shard they are called on
// (Command.Keyed). Members and clients call every shard, wherever it is.
//
// # Clients
//
// A client opens a session with each object that it commands. The session is part of the replicated state: a
// command is executed once, whichever members the client sends it to, and its reply is kept until the client has
// received it (package machine, below, has the rules). A session ends when its client is silent for longer than its timeout, in the
// ordered time of the object.
//
// # Upgrades
//
// Members announce the operations that they can execute, and an operation is enabled once all members of a
// view can. Until then its calls fail with ErrUnknownOperation, before anything is ordered. A process that
// lacks an enabled operation cannot join: Open returns squall.ErrRefused, and the view does not change.
package replicated
