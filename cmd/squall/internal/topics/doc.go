// Package topics has the commands of "squall dds", which list the topics of a space, read, write, record and play samples, say why a writer and a reader do
// not match, and carry topics between a group and a domain of DDS.
package topics
