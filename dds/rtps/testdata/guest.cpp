// A program of Fast DDS for tests of the gateway, with the type Guest::Note of guest.idl written by hand. It knows nothing of gateways.
//
//   guest DOMAIN ADDRESS say AUTHOR N M  writes N notes as soon as M readers match, waits until they are acknowledged, disposes of the instance, and ends
//   guest DOMAIN ADDRESS hear N          takes notes until N have come, and prints them
//   guest DOMAIN ADDRESS states          takes notes of one author until its instance is not alive, and prints its state
//
// Only the interface with the address ADDRESS is used, and other participants are looked for there.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include <fastcdr/Cdr.h>
#include <fastdds/dds/core/condition/WaitSet.hpp>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/utils/IPLocator.h>

using namespace eprosima::fastdds::dds;
namespace rtps = eprosima::fastrtps::rtps;
namespace cdr = eprosima::fastcdr;

struct Note {
	int32_t author = 0, number = 0;
	std::string text;
};

class NoteType : public TopicDataType {
public:
	NoteType()
	{
		setName("Guest::Note");
		m_typeSize = 4 + 4 + 4 + 4 + 256; // the encapsulation, the numbers, the length of the text, the text
		m_isGetKeyDefined = true;
		auto_fill_type_object(false);
		auto_fill_type_information(false);
	}

	bool serialize(void *data, rtps::SerializedPayload_t *payload) override
	{
		const Note *n = static_cast<Note *>(data);
		cdr::FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->max_size);
		cdr::Cdr out(buffer, cdr::Cdr::DEFAULT_ENDIAN, cdr::Cdr::DDS_CDR);
		payload->encapsulation = out.endianness() == cdr::Cdr::BIG_ENDIANNESS ? CDR_BE : CDR_LE;
		out.serialize_encapsulation();
		out << n->author << n->number << n->text;
		payload->length = static_cast<uint32_t>(out.getSerializedDataLength());
		return true;
	}

	bool deserialize(rtps::SerializedPayload_t *payload, void *data) override
	{
		Note *n = static_cast<Note *>(data);
		cdr::FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->length);
		cdr::Cdr in(buffer, cdr::Cdr::DEFAULT_ENDIAN, cdr::Cdr::DDS_CDR);
		in.read_encapsulation();
		in >> n->author;
		if (payload->length > 8) // not only the key
			in >> n->number >> n->text;
		return true;
	}

	std::function<uint32_t()> getSerializedSizeProvider(void *) override
	{
		return [this] { return m_typeSize; };
	}

	void *createData() override { return new Note(); }

	void deleteData(void *data) override { delete static_cast<Note *>(data); }

	bool getKey(void *data, rtps::InstanceHandle_t *handle, bool) override
	{
		const uint32_t author = static_cast<uint32_t>(static_cast<Note *>(data)->author);
		for (int i = 0; i < 16; i++)
			handle->value[i] = i < 4 ? static_cast<rtps::octet>(author >> (24 - 8 * i)) : 0;
		return true;
	}
};

template <typename T> static T *must(T *p, const char *what)
{
	if (p == nullptr) {
		std::cerr << what << " failed\n";
		std::exit(2);
	}
	return p;
}

static void await(Entity *e, const StatusMask &mask)
{
	StatusCondition &c = e->get_statuscondition();
	WaitSet set;
	ConditionSeq active;
	c.set_enabled_statuses(mask);
	set.attach_condition(c);
	if (set.wait(active, eprosima::fastrtps::Duration_t(20, 0)) != ReturnCode_t::RETCODE_OK) {
		std::cerr << "nothing happens\n";
		std::exit(3);
	}
	set.detach_condition(c);
}

static void say(DomainParticipant *p, Topic *topic, int author, int n, int readers)
{
	DataWriterQos q;
	q.reliability().kind = RELIABLE_RELIABILITY_QOS;
	q.durability().kind = VOLATILE_DURABILITY_QOS;
	q.history().kind = KEEP_ALL_HISTORY_QOS;
	DataWriter *w = must(must(p->create_publisher(PUBLISHER_QOS_DEFAULT), "publisher")->create_datawriter(topic, q), "writer");
	PublicationMatchedStatus matched;
	do {
		await(w, StatusMask::publication_matched());
		w->get_publication_matched_status(matched);
	} while (matched.current_count < readers);
	Note note;
	note.author = author, note.text = "a note of Fast DDS";
	for (; note.number < n; note.number++)
		if (!w->write(&note)) {
			std::cerr << "write failed\n";
			std::exit(4);
		}
	if (w->dispose(&note, HANDLE_NIL) != ReturnCode_t::RETCODE_OK ||
		w->wait_for_acknowledgments(eprosima::fastrtps::Duration_t(20, 0)) != ReturnCode_t::RETCODE_OK) {
		std::cerr << "dispose or its acknowledgement failed\n";
		std::exit(5);
	}
}

static void hear(DomainParticipant *p, Topic *topic, int n, bool states)
{
	DataReaderQos q;
	q.reliability().kind = RELIABLE_RELIABILITY_QOS;
	q.history().kind = KEEP_ALL_HISTORY_QOS;
	DataReader *r = must(must(p->create_subscriber(SUBSCRIBER_QOS_DEFAULT), "subscriber")->create_datareader(topic, q), "reader");
	for (int i = 0; i < n || states;) {
		Note note;
		SampleInfo info;
		if (r->take_next_sample(&note, &info) != ReturnCode_t::RETCODE_OK) {
			await(r, StatusMask::data_available());
			continue;
		}
		if (info.valid_data) {
			std::cout << note.author << ":" << note.number << " " << note.text << std::endl;
			i++;
		} else if (states && info.instance_state != ALIVE_INSTANCE_STATE) {
			std::cout << "3:" << (info.instance_state == NOT_ALIVE_DISPOSED_INSTANCE_STATE ? "disposed" : "no writers") << std::endl;
			return;
		}
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 1;
	const int domain = std::atoi(argv[1]);
	const std::string address = argv[2], mode = argv[3];
	auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };

	DomainParticipantQos q;
	auto udp = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
	udp->interfaceWhiteList.push_back(address);
	q.transport().use_builtin_transports = false;
	q.transport().user_transports.push_back(udp);
	for (int i = 0; i < 10; i++) { // the ports of the first participants of a host
		rtps::Locator_t l;
		rtps::IPLocator::setIPv4(l, address);
		l.port = static_cast<uint32_t>(7410 + 250 * domain + 2 * i);
		q.wire_protocol().builtin.initialPeersList.push_back(l);
	}
	DomainParticipant *p = must(DomainParticipantFactory::get_instance()->create_participant(domain, q), "participant");
	TypeSupport type(new NoteType());
	type.register_type(p);
	Topic *topic = must(p->create_topic("Notes", "Guest::Note", TOPIC_QOS_DEFAULT), "topic");
	if (mode == "say")
		say(p, topic, number(4), number(5), number(6));
	else if (mode == "hear")
		hear(p, topic, number(4), false);
	else if (mode == "states")
		hear(p, topic, 0, true);
	else
		return 1;
	p->delete_contained_entities();
	DomainParticipantFactory::get_instance()->delete_participant(p);
	return 0;
}
