/* A program of CycloneDDS for tests of the gateway. It knows nothing of gateways.
 *
 *   guest say AUTHOR N M    writes N notes as soon as M readers match, waits until they are acknowledged, disposes of the instance, and ends
 *   guest hear N            takes notes until N have come, and prints them
 *   guest states            takes notes of one author until the instance has no writer, and prints its states
 *   guest ask N BYTES       sends N parcels of so many bytes to the partition "there", each when the one before has come back in "back"
 *   guest echo              sends parcels back
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dds/dds.h"
#include "guest.h"

static dds_entity_t must(dds_entity_t e, const char *what)
{
	if (e < 0) {
		fprintf(stderr, "%s: %s\n", what, dds_strretcode(-e));
		exit(2);
	}
	return e;
}

static dds_entity_t participant;

static dds_qos_t *reliable(void)
{
	dds_qos_t *q = dds_create_qos();
	dds_qset_reliability(q, DDS_RELIABILITY_RELIABLE, DDS_SECS(10));
	dds_qset_history(q, DDS_HISTORY_KEEP_ALL, 0);
	return q;
}

static dds_entity_t reader(const dds_topic_descriptor_t *type, const char *topic, const char *partition)
{
	dds_qos_t *q = reliable(), *s = dds_create_qos();
	if (partition != NULL)
		dds_qset_partition1(s, partition);
	dds_entity_t t = must(dds_create_topic(participant, type, topic, NULL, NULL), "topic");
	dds_entity_t sub = must(dds_create_subscriber(participant, s, NULL), "subscriber");
	dds_entity_t r = must(dds_create_reader(sub, t, q, NULL), "reader");
	dds_delete_qos(q);
	dds_delete_qos(s);
	return r;
}

static dds_entity_t writer(const dds_topic_descriptor_t *type, const char *topic, const char *partition)
{
	dds_qos_t *q = reliable(), *s = dds_create_qos();
	dds_qset_writer_data_lifecycle(q, false);
	if (partition != NULL)
		dds_qset_partition1(s, partition);
	dds_entity_t t = must(dds_create_topic(participant, type, topic, NULL, NULL), "topic");
	dds_entity_t pub = must(dds_create_publisher(participant, s, NULL), "publisher");
	dds_entity_t w = must(dds_create_writer(pub, t, q, NULL), "writer");
	dds_delete_qos(q);
	dds_delete_qos(s);
	return w;
}

/* within waits for one of the statuses of an entity for some time, and returns 0 if there is none. */
static int within(dds_duration_t time, dds_entity_t e, uint32_t status)
{
	dds_entity_t set = must(dds_create_waitset(participant), "waitset");
	must(dds_set_status_mask(e, status), "mask");
	must(dds_waitset_attach(set, e, 0), "attach");
	int n = must(dds_waitset_wait(set, NULL, 0, time), "wait");
	must(dds_delete(set), "delete");
	return n;
}

static void await(dds_entity_t e, uint32_t status)
{
	if (within(DDS_SECS(20), e, status) == 0) {
		fprintf(stderr, "nothing happens\n");
		exit(3);
	}
}

/* next takes one sample, and waits for it. */
static void next(dds_entity_t r, void *sample, dds_sample_info_t *info)
{
	void *all[1] = { sample };
	while (must(dds_take(r, all, info, 1, 1), "take") == 0)
		await(r, DDS_DATA_AVAILABLE_STATUS);
}

static void say(int author, int n, unsigned readers)
{
	dds_entity_t w = writer(&Guest_Note_desc, "Notes", NULL);
	dds_publication_matched_status_t matched;
	do {
		await(w, DDS_PUBLICATION_MATCHED_STATUS);
		must(dds_get_publication_matched_status(w, &matched), "matched");
	} while (matched.current_count < readers);
	for (int i = 0; i < n; i++) {
		Guest_Note note = { .author = author, .number = i, .text = "a note of CycloneDDS" };
		must(dds_write(w, &note), "write");
	}
	must(dds_wait_for_acks(w, DDS_SECS(20)), "acknowledgements");
	Guest_Note key = { .author = author, .text = "" };
	must(dds_dispose(w, &key), "dispose");
	must(dds_unregister_instance(w, &key), "unregister");
}

static void print(const Guest_Note *note)
{
	printf("%d:%d %s\n", (int)note->author, (int)note->number, note->text);
	fflush(stdout);
}

static void hear(int n)
{
	dds_entity_t r = reader(&Guest_Note_desc, "Notes", NULL);
	for (int i = 0; i < n; ) {
		Guest_Note *note = Guest_Note__alloc();
		dds_sample_info_t info;
		next(r, note, &info);
		if (info.valid_data) {
			print(note);
			i++;
		}
		Guest_Note_free(note, DDS_FREE_ALL);
	}
}

/* states ends when all samples of an instance that is not alive any more were taken: a state comes with samples, if there are any. */
static void states(void)
{
	dds_entity_t r = reader(&Guest_Note_desc, "Notes", NULL);
	dds_instance_state_t state = DDS_IST_ALIVE;
	int author = 0;
	for (;;) {
		Guest_Note *note = Guest_Note__alloc();
		dds_sample_info_t info;
		void *all[1] = { note };
		if (must(dds_take(r, all, &info, 1, 1), "take") == 1) {
			author = (int)note->author, state = info.instance_state;
			if (info.valid_data)
				print(note);
		} else if (state != DDS_IST_ALIVE) {
			printf("%d:%s\n", author, state == DDS_IST_NOT_ALIVE_DISPOSED ? "disposed" : "no writers");
			Guest_Note_free(note, DDS_FREE_ALL);
			return;
		} else {
			await(r, DDS_DATA_AVAILABLE_STATUS);
		}
		Guest_Note_free(note, DDS_FREE_ALL);
	}
}

/* ask sends a parcel again until an answer comes: the writer of the answers may match only after the first of them. */
static void ask(int n, int bytes)
{
	dds_entity_t w = writer(&Guest_Parcel_desc, "Parcels", "there"), r = reader(&Guest_Parcel_desc, "Parcels", "back");
	await(w, DDS_PUBLICATION_MATCHED_STATUS);
	Guest_Parcel out = { 0 };
	out.content._length = out.content._maximum = (uint32_t)bytes;
	out.content._buffer = dds_alloc((size_t)bytes);
	int i = 0;
	for (int attempts = 0; i < n && attempts < 20; attempts++) {
		memset(out.content._buffer, i, (size_t)bytes);
		must(dds_write(w, &out), "write");
		for (int answered = 0; !answered && within(DDS_SECS(2), r, DDS_DATA_AVAILABLE_STATUS) > 0; ) {
			Guest_Parcel *in = Guest_Parcel__alloc();
			dds_sample_info_t info;
			void *all[1] = { in };
			while (must(dds_take(r, all, &info, 1, 1), "take") == 1) {
				if (!info.valid_data || in->content._buffer[0] != out.content._buffer[0])
					continue; /* an answer to a parcel that was sent twice */
				if (in->content._length != (uint32_t)bytes || memcmp(in->content._buffer, out.content._buffer, (size_t)bytes) != 0) {
					fprintf(stderr, "parcel %d came back with %u bytes, or changed\n", i, in->content._length);
					exit(4);
				}
				answered = 1;
			}
			Guest_Parcel_free(in, DDS_FREE_ALL);
			i += answered, attempts -= answered;
		}
	}
	printf("%d parcels came back\n", i);
}

static void echo(void)
{
	dds_entity_t w = writer(&Guest_Parcel_desc, "Parcels", "back"), r = reader(&Guest_Parcel_desc, "Parcels", "there");
	for (;;) {
		Guest_Parcel *p = Guest_Parcel__alloc();
		dds_sample_info_t info;
		next(r, p, &info);
		if (info.valid_data)
			must(dds_write(w, p), "write");
		Guest_Parcel_free(p, DDS_FREE_ALL);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0;
	participant = must(dds_create_participant(DDS_DOMAIN_DEFAULT, NULL, NULL), "participant");
	if (strcmp(mode, "say") == 0)
		say(a, b, argc > 4 ? (unsigned)atoi(argv[4]) : 1);
	else if (strcmp(mode, "hear") == 0)
		hear(a);
	else if (strcmp(mode, "states") == 0)
		states();
	else if (strcmp(mode, "ask") == 0)
		ask(a, b);
	else if (strcmp(mode, "echo") == 0)
		echo();
	else
		return 1;
	must(dds_delete(participant), "delete");
	return 0;
}
