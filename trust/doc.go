// Package trust lets two processes of a group prove their identity to each other.
//
// Every process makes an X25519 key pair when it starts (Identity). The public key is part of its
// record in the view, so every member knows the public keys of all others. Two members compute the
// same secret, each from its own private key and the public key of the other one; no other process
// can compute it, not even another member of the same view. From that secret and the view, both
// derive one key for each purpose (Key), and with it they authenticate what they say when they
// connect.
//
// Life of a greeting: challenged (the listener sends a random nonce) → claimed (the dialer names
// its node, with a nonce of its own, and authenticates both nonces) → proved (the listener answers
// and authenticates the answer together with the claim).
//
//	dialer                                 listener
//	                        ◀──────────    nonce of the listener
//	claim, nonce, MAC       ──────────▶    compares the MAC: the dialer is the member that it says it is, now
//	                        ◀──────────    answer, MAC
//	compares the MAC: the listener is the member that was dialed
//
// Invariants:
//
//	T1  only the two members of a pair can compute a key of the pair; keys of another view, purpose
//	    or pair are different
//	T2  what was recorded from one connection authenticates nothing on another one: each MAC covers a
//	    nonce of its receiver
//	T3  what one side said does not authenticate the other side: a MAC covers the side that sent the
//	    message
//	T4  with TLS, a member is accepted only with the certificate key that its record names
//
// The data after the greeting is protected by TLS or not at all: an attacker that can change
// packets on the network can take over a connection without TLS after its greeting.
package trust
