// Package objects has the commands "squall objects" and "squall call", which describe replicated
// objects and call their operations. They know no types: arguments and replies are converted
// between JSON and the encoding that the object's members name.
package objects
