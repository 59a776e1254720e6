// Package qos has the 22 policies of DDS: what a writer offers, a reader requests and a topic has,
// which values agree with each other, and which match.
//
//	offered := qos.Set{Durability: qos.Transient, History: qos.KeepLast(8)}
//	requested := qos.Set{Durability: qos.Volatile, Deadline: time.Second}
//	for _, v := range qos.Explain(offered, requested) { … }   // one verdict for each policy that matching looks at
//
// Each policy has an effect or is refused: Validate returns an error with the reason for a value
// that this package does not offer, and for a policy that has no effect on the kind of entity for
// which it is set. Policy.Support says for each policy what it does on a topic with an order.
//
// The zero value of a Set has the defaults of DDS, with two deviations. A reader is RELIABLE, and
// LIVELINESS is judged by the membership of the group.
//
// The package is pure: functions of their arguments, which every member of a group evaluates with
// the same result.
package qos
