// Package testlab has the process that is a member of a group in tests and in "squall demo", and
// the checks of what such processes delivered.
//
// A run is processes that this one starts, each of which is a member of one group and sends as fast
// as its ring takes. The parent kills, stops, cuts off and adds processes while they do. Parents
// are the Cluster of this package's tests and the demo.
//
// Life of a process: started with a Spec on its standard input → forms the group or joins it →
// sends, tells its parent News of views and events, and writes what it delivers and which views it
// installs to its log, if it has one → does what it is told by requests (stop sending, leave, …) →
// ends its log with how it ended and what it sent, unless it was killed.
//
// The application of a load that is stateful or durable has a State: a digest of everything that
// was ever delivered, in order, with the number of messages of each process. Members that join get
// it from others, or from their logs, so it must be equal at all members (Differ). Meanwhile
// replicas tell it (a Mark): at each view's end, after a state was taken over, and every so many
// messages. A Ledger compares marks at the same message, including marks of members that are gone.
// A message begins with its number and with that of its process: so every replica sees at once if
// one is missing, there twice, or out of order.
//
// A timed load is for figures: its messages have no header, and its application does nothing but
// count, digest and measure (Timing).
//
// In tests, Check reads the logs of a run and compares them: in each view all members delivered the
// same sequence, or a beginning of it if they did not see the view's end (G1, G2, G4); over all
// views each process's messages come in its order, each once (FIFO), and all messages of which a
// process that stayed to the end, or left, was told that they were accepted (G3); all installed the
// same views (G4, G5).
//
// A durable load is a persistent subgroup whose processes keep a directory (a disk) over restarts,
// and tell their parent which of their messages are on every disk. In tests, Audit then reads the
// disks that they left behind, record by record, next to each other: nothing that was told is
// missing, and nothing differs. ReadDisk makes the state of one disk.
//
// Package netlab provides hosts, if a run needs several.
//
// The processes are this program once more, started as Program.
package testlab
