// Package rdmc is the command "squall rdmc": it draws schedules of large messages, and plays them
// on modelled links in virtual time. Nothing is measured and nothing is sent; how fast this machine
// is does not matter.
//
// Life of a figure: curves of cases, one for each number of members → each case becomes a network
// and transfers, and is played by package linkmodel → what comes of it is a point with everything
// that can be said of it → the figure shows one value of each point, as a table, a curve, or
// JSON.
package rdmc
