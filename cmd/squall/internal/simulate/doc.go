// Package simulate is the command "squall sim": it runs the simulator over many seeds, or shows
// what happens in one.
//
// Life of a campaign: the flags become limits and a range of seeds → all cores play seeds, lowest
// first → either all pass, or the first violation ends it → what was done is printed, and of a
// failure all that is needed to look into it: the seed, the commit, the command that plays it
// again, and the end of its trace.
package simulate
