/*
 * The decision part of a view change (docs/model/README.md): n members, each with a row of registers that only it writes,
 * and of which every other member sees some prefix of the writes.
 *
 *	steady -> suspects | sees its leader's proposal -> wedged and acked(b) -> echoed(b) -> installed
 *	leader:   proposed(b) -> all participants acked -> adopts, or computes afresh -> decided(b), its own echo
 *
 * Bounds, all of them set with -D:
 *	N         members
 *	ATTEMPTS  ballots of one leader; asserted to be enough
 *	CRASHES   members that crash
 *	VICTIMS   mask of the members that may crash
 *	CLOSING   1: who has installed may close the old table at any moment, for FailAfter may have passed
 *	WRONG     suspicions of somebody who is alive (each of one member by one other; spreading costs nothing)
 *	JOIN      1: rank 0 may begin a change though nobody failed
 *	LEAVER    mask of the members that may announce that they leave
 *	EAGER     suspicion that a member sees is evaluated before all else, as if it read a row's words at one moment
 *
 * Flaws, each of which check.sh has to find: NO_ECHO_QUORUM, NO_ADOPTION, PLAIN_HALF, DEAD_SURVIVOR, NO_EVICTION, NO_PART,
 * NO_RETRY, KEEPS_TABLE.
 */

#ifndef N
#define N 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef VICTIMS
#define VICTIMS 255
#endif
#ifndef WRONG
#define WRONG 1
#endif
#ifndef JOIN
#define JOIN 1
#endif
#ifndef CLOSING
#define CLOSING 1
#endif
#ifndef LEAVER
#define LEAVER 0
#endif
#ifndef DEPTH
#define DEPTH 12		/* writes on their way from one member to another */
#endif

#define EVERYBODY ((1 << N) - 1)
#define BALLOTS (N * ATTEMPTS + 1)
#define BALLOT(attempt, rank) (((attempt) - 1) * N + (rank) + 1)	/* 0: none; attempts first, then ranks */
#define RANK(ballot) (((ballot) - 1) % N)

/* ---- Rows. X(m, w) is the row of w as m sees it, X(m, m) the row itself. ---- */

#define X(m, w) ((m) * N + (w))

byte suspected[N * N];	/* a bit per rank */
byte leaving[N * N];	/* 1: leaves */
byte proposed[N * N];	/* a ballot: the guard of a proposal */
byte acked[N * N];	/* a ballot: the guard of the vector, too */
byte decided[N * N];	/* a ballot: the guard of a decision */

/* What a guard word guards is never changed once the guard is visible, so that it is kept by ballot and not by reader. */
byte part[BALLOTS];	/* of a proposal: the members that take part, survivors and leavers */
byte survivors[BALLOTS];/* of a proposal: who is in the next view */
byte value[BALLOTS];	/* of a decision: the ballot it was computed at; names next view, joiners and trim at once */
byte trim[BALLOTS];	/* of a value */

/* What rank m had received when it wedged. Not zero, which is what an unseen vector reads as. */
#define VECTOR(m) (N - (m))
#define VECTOR_MIN 1

mtype = { Suspected, Leaving, Proposed, Acked, Decided };
chan way[N * N] = [DEPTH] of { mtype, byte };	/* way[X(r, w)]: writes of w that r does not see yet */

/* ---- Members ---- */

#define LIVE 0
#define INSTALLED 1	/* goes on acking and echoing in the old view */
#define STOPPED 2	/* crashed, or halted with ErrEvicted or ErrPartitioned */

byte state[N];
byte chosen;		/* the value that was installed first */
byte crashes = CRASHES;
byte wrong = WRONG;
bool join = JOIN;
bool closing = CLOSING;

/* Work space: zero or meaningless between steps. */
hidden byte i, j, b, s, v;

#define OWN(m) suspected[X(m, m)]
#define SUSPECTS(m, w) ((OWN(m) >> (w)) & 1)
#define COUNT(s) (((s) & 1) + (((s) >> 1) & 1) + (((s) >> 2) & 1) + (((s) >> 3) & 1) + (((s) >> 4) & 1))

#ifdef PLAIN_HALF
#define QUORUM(s) (2 * COUNT(s) >= N)
#else
#define QUORUM(s) (2 * COUNT(s) > N || (2 * COUNT(s) == N && ((s) & 1)))	/* G5 */
#endif

/* MASK(p, m): the ranks w with p(m, w). */
#if N == 2
#define MASK(p, m) (p(m, 0) | (p(m, 1) << 1))
#elif N == 3
#define MASK(p, m) (p(m, 0) | (p(m, 1) << 1) | (p(m, 2) << 2))
#elif N == 4
#define MASK(p, m) (p(m, 0) | (p(m, 1) << 1) | (p(m, 2) << 2) | (p(m, 3) << 3))
#elif N == 5
#define MASK(p, m) (p(m, 0) | (p(m, 1) << 1) | (p(m, 2) << 2) | (p(m, 3) << 3) | (p(m, 4) << 4))
#endif

/* The leader: the lowest rank that m does not suspect and that does not leave; if all leave, that it does not suspect. */
#define LOWEST(s) (((s) & 1) -> 0 : (((s) & 2) -> 1 : (((s) & 4) -> 2 : (((s) & 8) -> 3 : 4))))
#define LEAVES(m, w) leaving[X(m, w)]
#define UNSUSPECTED(m) (EVERYBODY & ~OWN(m))
#if LEAVER
#define STAYING(m) (UNSUSPECTED(m) & ~MASK(LEAVES, m))
#define LEADER(m) ((STAYING(m)) -> LOWEST(STAYING(m)) : LOWEST(UNSUSPECTED(m)))
#else
#define LEADER(m) LOWEST(UNSUSPECTED(m))
#endif

/* ---- The guards of the rules ---- */

/* Suspicion spreads, and whoever is suspected halts. */
#ifdef NO_EVICTION
#define EVICTED(m, w) 0
#else
#define EVICTED(m, w) ((suspected[X(m, w)] >> (m)) & 1)
#endif
#define SPREADS(m, w) (suspected[X(m, w)] & ~OWN(m) & ~(1 << (m)))
#define CAN_ABSORB(m, w) (state[m] != STOPPED && m != w && (EVICTED(m, w) || SPREADS(m, w)))

/* A leader proposes what is new, and again when somebody its open proposal counts on died, or acked a higher ballot. */
#define OPEN(m) (proposed[X(m, m)] && decided[X(m, m)] != proposed[X(m, m)])
#if LEAVER
#define NEWS(m) (OWN(m) || join || MASK(LEAVES, m))
#else
#define NEWS(m) (OWN(m) || join)
#endif
#ifdef NO_RETRY
#define OUTBID(m) 0
#else
#define ACKED_HIGHER(m, w) (acked[X(m, w)] > proposed[X(m, m)])
#define OUTBID(m) (((MASK(ACKED_HIGHER, m)) & ~OWN(m)) && !(MASK(CAN_ABSORB, m)))
#endif
#define CAN_PROPOSE(m) (state[m] == LIVE && LEADER(m) == m && \
	((!proposed[X(m, m)] && NEWS(m)) || (OPEN(m) && (((part[proposed[X(m, m)]] & OWN(m)) && !DECIDES_ANYWAY) || OUTBID(m)))))
#ifdef DEAD_SURVIVOR
#define DECIDES_ANYWAY 1
#else
#define DECIDES_ANYWAY 0
#endif

#define CAN_ACK(m) (state[m] != STOPPED && LEADER(m) != m && proposed[X(m, LEADER(m))] > acked[X(m, m)])

#define HAS_ACKED(m, w) (acked[X(m, w)] == proposed[X(m, m)])
#ifdef DEAD_SURVIVOR
#define AWAITED(m) (part[proposed[X(m, m)]] & ~OWN(m))
#else
#define AWAITED(m) part[proposed[X(m, m)]]
#endif
#define CAN_DECIDE(m) (state[m] == LIVE && OPEN(m) && (AWAITED(m) & ~(MASK(HAS_ACKED, m))) == 0 && \
	(DECIDES_ANYWAY || (part[proposed[X(m, m)]] & OWN(m)) == 0))

#define CAN_ECHO(m, w) (state[m] != STOPPED && m != w && !SUSPECTS(m, w) && decided[X(m, w)] > decided[X(m, m)] && \
	RANK(decided[X(m, w)]) == w && decided[X(m, w)] >= acked[X(m, m)])

#define HAS_ECHOED(m, w) (decided[X(m, w)] == decided[X(m, m)])
#ifdef NO_ECHO_QUORUM
#define CAN_INSTALL(m, own) (state[m] == LIVE && decided[X(m, m)])
#else
#define CAN_INSTALL(m, own) (state[m] == LIVE && decided[X(m, m)] && TAKES_PART(m, value[decided[X(m, m)]]) && \
	(part[value[decided[X(m, m)]]] & ~(own) & ~(MASK(HAS_ECHOED, m))) == 0 && QUORUM((MASK(HAS_ECHOED, m))))
#endif

/* With EAGER nobody gets here whom a decision removes, which is asserted. */
#if defined(EAGER) || defined(NO_PART)
#define TAKES_PART(m, b) 1
#else
#define TAKES_PART(m, b) ((part[b] >> (m)) & 1)
#endif

/* ---- What the rules do ---- */

/* A write is on its way to everybody who still listens. */
inline push(m, register, word) {
	for (i : 0 .. N - 1) {
		if
		:: i != m && state[i] != STOPPED && !SUSPECTS(i, m) ->
			assert(len(way[X(i, m)]) < DEPTH);
			way[X(i, m)]!register, word
		:: else
		fi
	}
}

inline drain(r, w) {
	do
	:: len(way[X(r, w)]) > 0 -> way[X(r, w)]?_, _
	:: else -> break
	od
}

/* Whoever stops reads and writes nothing any more; what it had pushed stays on its way. */
inline stop(m) {
	printf("%d stops\n", m);
	state[m] = STOPPED;
	for (i : 0 .. N - 1) {
		drain(m, i);
		suspected[X(m, i)] = 0;
		leaving[X(m, i)] = 0;
		proposed[X(m, i)] = 0;
		acked[X(m, i)] = 0;
		decided[X(m, i)] = 0
	}
}

inline install(m) {
	v = value[decided[X(m, m)]];
	printf("%d installs value %d, survivors %d, trim %d\n", m, v, survivors[v], trim[v]);
	assert(v);
	assert(!chosen || chosen == v);			/* agreement: one next view, one trim */
	assert((part[v] >> m) & 1);			/* nobody installs what removed it */
	assert(trim[v] >= VECTOR_MIN);			/* nothing that somebody may have delivered is cut off */
	for (i : 0 .. N - 1) {
		assert(!((survivors[v] >> i) & 1) || trim[v] <= VECTOR(i))	/* survivors hold all up to the trim */
	}
	chosen = v;
	state[m] = INSTALLED
}

/* Freezes the rows of `new`. Whoever is left with too few halts and says nothing of it, unless it can install. */
inline suspect(m, new) {
	s = OWN(m) | (new);
	printf("%d suspects %d\n", m, s);
	for (i : 0 .. N - 1) {
		if
		:: (s >> i) & 1 -> drain(m, i)
		:: else
		fi
	}
	if
	:: QUORUM((EVERYBODY & ~s)) ->
		OWN(m) = s;
		push(m, Suspected, s)
	:: else ->
		if
		:: CAN_INSTALL(m, s) ->
			install(m);
#ifdef KEEPS_TABLE
			OWN(m) = s
#else
			stop(m)			/* closes the old table: others may wait for it */
#endif
		:: else -> stop(m)
		fi
	fi
}

inline absorb(m, w) {
	if
	:: EVICTED(m, w) -> stop(m)
	:: else ->
		if
		:: SPREADS(m, w) -> suspect(m, SPREADS(m, w))
		:: else
		fi
	fi
}

/* A write of w becomes visible to m. What m makes of it is a step of its own, since a member may read one word before,
   and another word after they were written: with EAGER, suspicion comes before all else. */
inline see(m, w) {
	if
	:: way[X(m, w)]?Suspected, b ->
		printf("%d sees suspicions %d of %d\n", m, b, w);
		suspected[X(m, w)] = b;
#ifdef EAGER
		absorb(m, w)
#else
		skip
#endif
	:: way[X(m, w)]?Leaving, b -> printf("%d sees leaving %d of %d\n", m, b, w); leaving[X(m, w)] = b
	:: way[X(m, w)]?Proposed, b -> printf("%d sees proposal %d of %d\n", m, b, w); proposed[X(m, w)] = b
	:: way[X(m, w)]?Acked, b -> printf("%d sees ack %d of %d\n", m, b, w); acked[X(m, w)] = b
	:: way[X(m, w)]?Decided, b -> printf("%d sees decision %d of %d\n", m, b, w); decided[X(m, w)] = b
	fi
}

/* The lowest ballot of m that is above all it sees. Its own ack needs no other moment. */
inline propose(m) {
	b = 0;
	for (i : 0 .. N - 1) {
		b = (proposed[X(m, i)] > b -> proposed[X(m, i)] : b);
		b = (acked[X(m, i)] > b -> acked[X(m, i)] : b);
		b = (decided[X(m, i)] > b -> decided[X(m, i)] : b)
	}
	j = 1;
	do
	:: BALLOT(j, m) <= b -> j++
	:: else -> break
	od;
	assert(j <= ATTEMPTS);
	b = BALLOT(j, m);
	part[b] = UNSUSPECTED(m);
#if LEAVER
	survivors[b] = STAYING(m);
#else
	survivors[b] = UNSUSPECTED(m);
#endif
	join = 0;
	printf("%d proposes %d, part %d\n", m, b, part[b]);
	proposed[X(m, m)] = b;
	push(m, Proposed, b);
	acked[X(m, m)] = b;
	push(m, Acked, b)
}

inline ack(m) {
	b = proposed[X(m, LEADER(m))];
	printf("%d acks %d\n", m, b);
	acked[X(m, m)] = b;
	push(m, Acked, b)
}

inline decide(m) {
	b = proposed[X(m, m)];
	j = 0;
#ifndef NO_ADOPTION
	for (i : 0 .. N - 1) {
		j = (decided[X(m, i)] > j -> decided[X(m, i)] : j)
	}
#endif
	if
	:: j -> value[b] = value[j]
	:: else ->
		value[b] = b;
		trim[b] = N;
		for (i : 0 .. N - 1) {
			if
			:: (survivors[b] >> i) & 1 ->
				v = (acked[X(m, i)] -> VECTOR(i) : 0);
				trim[b] = (v < trim[b] -> v : trim[b])
			:: else
			fi
		}
	fi;
	printf("%d decides %d, value %d\n", m, b, value[b]);
	decided[X(m, m)] = b;
	push(m, Decided, b)
}

inline echo(m, w) {
	b = decided[X(m, w)];
	printf("%d echoes %d of %d\n", m, b, w);
	decided[X(m, m)] = b;
	push(m, Decided, b)
}

/* ---- A member, whose rules are steps of their own, in any order ---- */

#define TOWARDS(m, w) \
	:: d_step { m != w && len(way[X(m, w)]) > 0 -> see(m, w); b = 0 } \
	:: d_step { CAN_ABSORB(m, w) -> absorb(m, w); b = 0 } \
	:: d_step { CAN_ECHO(m, w) -> echo(m, w); b = 0 } \
	:: d_step { state[m] != STOPPED && m != w && !SUSPECTS(m, w) && (state[w] == STOPPED || wrong) -> \
		if :: state[w] == STOPPED :: else -> wrong-- fi; suspect(m, (1 << w)); b = 0 }

proctype Member(byte m) {
end:	do
	TOWARDS(m, 0)
	TOWARDS(m, 1)
#if N > 2
	TOWARDS(m, 2)
#endif
#if N > 3
	TOWARDS(m, 3)
#endif
#if N > 4
	TOWARDS(m, 4)
#endif
	:: d_step { CAN_PROPOSE(m) -> propose(m); b = 0 }
	:: d_step { CAN_ACK(m) -> ack(m); b = 0 }
	:: d_step { CAN_DECIDE(m) -> decide(m); b = 0 }
	:: d_step { CAN_INSTALL(m, OWN(m)) -> install(m); b = 0 }
#if LEAVER
	:: d_step { state[m] == LIVE && ((LEAVER >> m) & 1) && !leaving[X(m, m)] && !acked[X(m, m)] ->
		leaving[X(m, m)] = 1; push(m, Leaving, 1); b = 0 }
#endif
	:: d_step { state[m] == INSTALLED && closing -> stop(m); b = 0 }
	:: d_step { state[m] != STOPPED && crashes && ((VICTIMS >> m) & 1) -> crashes--; stop(m); b = 0 }
	od
}

/* ---- The end ---- */

/* Steady is who takes no part in a change; at the end nothing is on its way, so that then there is none. */
#define STEADY(m) (!OWN(m) && !acked[X(m, m)] && !leaving[X(m, m)])
#define UNDONE(m, unused) (state[m] == LIVE && !STEADY(m))

/* At any moment the faults may be over. Every register only grows, so that every run ends; it has to end well. */
proctype End() {
	if
	:: d_step { crashes || wrong || join || closing -> crashes = 0; wrong = 0; join = 0; closing = 0 }
	:: timeout
	fi;
	timeout;
	d_step {
		for (i : 0 .. N - 1) {
			assert(!UNDONE(i, 0))			/* installed, halted, or nothing to do */
		}
		b = 0
	}
}

init {
	atomic {
		for (i : 0 .. N - 1) {
			run Member(i)
		}
		run End()
	}
}
