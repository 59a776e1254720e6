// Package life decides what a process does from its start until it is a member of a view, and what
// it has to keep on its disk meanwhile. It is pure: inputs go in, effects come out. The root
// package performs them with files and connections, the simulator in virtual time.
//
// Life of a process with persistent subgroups:
//
//	start ──▶ opening ──▶ restarting ──▶ catching up ──▶ joining ──▶ entering ──▶ member
//	             └─────────────┼───────────────▲                        ▲
//	                           └────────────────────────────────────────┘
//
// Opening: the logs on the disk are opened, and damage in them is dropped if other members have the
// lost records. From then on other processes may read the logs, and the identity of the process is
// durable. Restarting: a process whose disk knows a view agrees with the other members of that view
// on how to go on (package restart). It is a member of the next view, or there is a group that
// works without it; then it goes on as another process. Catching up: the process gets records from
// the logs of a member, as long as none of its own records has to be dropped for that. Then little
// is left to do while the group waits for its disk. Joining: the process asks to become a member
// (package join). Entering: the logs of its shards in the view are opened, and then the view is
// made durable together with a note of what these logs lack.
//
// A process without persistent subgroups only joins.
//
// Life of a Reconciliation: a restart has agreed where logs end. A log of which the process is a
// source itself is left alone, one of which there is nothing is emptied, and any other
// one becomes that of a source: one source is asked after the other, round after round, with a
// pause between two rounds that grows.
//
// Order of inputs: Start, and then Ended for each effect when it is done, which returns the next
// one: one at a time. A process that is a member asks with Decision what comes before it shows that
// it knows of a decision.
//
// Invariants:
//
//	LF1  a process asks to become a member only under an identity that is durable, and after a
//	     restart that ended without it under a new one
//	LF2  damage is dropped only from logs that other members have, and only when it is durable that
//	     the log lacks something
//	LF3  a process begins in a view, or shows a decision for it, only when its logs there are open
//	     and the view is durable
//	LF4  before a process is in a view, it drops nothing of its logs but damage and what a restart
//	     agreed to drop
//
// Shared: nothing. A Core belongs to the goroutine that gives it inputs; Decision may be called
// from any goroutine.
package life
