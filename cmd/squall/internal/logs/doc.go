// Package logs is the command "squall log": it lists, reads, follows, checks, takes out and mends
// the logs of persistent subgroups, of a member that runs or of the directory of one that does not.
//
// Life of a call: the target is a directory, or the HOST:PORT of a member → a library of logs, the
// same for both → one log of it, named or the only one → its records, one line each, or as JSON, or
// raw.
//
// Only "squall log repair" writes to a directory of logs.
package logs
