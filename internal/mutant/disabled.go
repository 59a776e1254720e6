//go:build !mutants

package mutant

// Enabled says that this build can misbehave.
const Enabled bool = false
