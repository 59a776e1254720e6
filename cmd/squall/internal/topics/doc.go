// Package topics has the commands of "squall dds", which list the topics of a space and show them
// on a web page, read, write, record and play samples, say why a writer and a reader do not match,
// print types in IDL, and carry topics between a group and a domain of DDS.
package topics
