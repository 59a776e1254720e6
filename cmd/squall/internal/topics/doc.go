// Package topics has the commands of "squall dds", which list the topics of a space, read and write samples, and say why a writer and a reader do not match.
package topics
