// Package member makes this process a member of groups with replicated objects: it has a copy of
// each, executes their commands, and serves them to clients. Package replicated has the operations,
// which are called alike by members and clients.
//
//	accounts := member.New(squall.SubgroupConfig{Name: "accounts"}, newBank,
//		member.Handle(Deposit, (*Bank).deposit),
//		member.Handle(Balance, (*Bank).balance))
//	g, err := member.Open(ctx, squall.Config{ … }, accounts)
//	n, err := Deposit.Call(ctx, accounts, DepositArgs{"ann", 100})
//	s, err := member.Serve(ctx, member.ServerConfig{ … }, accounts)
//
// An object is a subgroup of its group. All of the subgroup's modes and limits apply: a Persistent
// subgroup makes an object that survives the end of all its members.
//
// # Commands
//
// Life of a command: encoded → ordered (one message of the subgroup) → executed by every member,
// each on its own copy → answered, at the member that sent it. A handler must do the same
// everywhere: it takes the time and random numbers from its Context, and nothing from the clock,
// other goroutines or the order of a map. An error that a handler returns is a reply. A panic halts
// the group at the members where it happens (PanicError), with the command in the error.
//
// Everything of an object runs on the group's loop, or after the queue of AsyncQueueBytes. A
// handler does not wait: a call within one fails with replicated.ErrInHandler. It sends: commands
// to other objects, which are executed once although every member executes the handler (Send),
// messages (Context.Message), and tasks, which may wait (Context.Start).
//
// # Shards
//
// An object with SubgroupConfig.Shards has a state for each shard, and a member has a copy of the
// one whose shard it is in. It calls the other ones as a client does (Serve).
//
// # Upgrades
//
// A process that lacks an enabled operation cannot join: Open returns squall.ErrRefused, and the
// view does not change.
package member
