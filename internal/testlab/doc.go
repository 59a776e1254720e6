// Package testlab runs groups of real processes, lets them fail, and checks what they delivered.
//
// A run is a Cluster: processes that this one starts, each of which is a member of one group and
// sends as fast as its ring takes. The test kills, stops, cuts off and adds processes while they
// do.
//
// Life of a process: started with a Spec on its standard input → forms the group or joins it →
// sends, and writes what it delivers and which views it installs to its log → does what it is told
// by requests (stop sending, leave, …) → ends its log with how it ended and what it sent, unless it
// was killed.
//
// Check reads the logs of a run and compares them: in each view all members delivered the same
// sequence, or a beginning of it if they did not see the view's end (G1, G2, G4); over all views
// each process's messages come in its order, each once (FIFO), and all messages of which a process that
// stayed to the end, or left, was told that they were accepted (G3); all installed the same views (G4, G5).
//
// A durable load is a persistent subgroup whose processes keep a directory (a disk) over restarts,
// and tell the test which of their messages are on every disk. Audit then reads the disks that they
// left behind, record by record, next to each other: nothing that was told is missing, and nothing
// differs. The application of such a load keeps a digest, which must be that of the log whether it
// was delivered or recovered.
//
// Package netlab provides hosts, if a run needs several.
//
// The processes are this program once more: TestMain calls Main first.
package testlab
