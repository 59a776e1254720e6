// Package topics is the workload of "squall bench dds": a writer of one topic and readers in other processes, pings and pongs, beside the same of CycloneDDS's
// ddsperf; and the experiment of the Spindle paper's Figure 18.
package topics
