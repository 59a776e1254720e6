// Package show has what all commands show people and programs in the same way: progress, plots,
// tables, figures and JSON.
package show
