#include <infiniband/verbs.h>
#include <stdint.h>

// The structures of package device, as Go lays them out.
struct work {
	uint64_t id, local, remote;
	uint32_t bytes, local_key, remote_key;
	uint8_t kind, inlined, signalled, unused;
};
struct receive {
	uint64_t id, local;
	uint32_t bytes, key;
};
struct completion {
	uint64_t id;
	uint32_t pair, bytes, status, unused;
};

enum { most_work = 32, most_receives = 32, most_completions = 64 };

int squall_post(struct ibv_qp *qp, struct receive *receives, int nreceives, struct work *work, int nwork);
int squall_poll(struct ibv_cq *cq, struct completion *into, int n);
int squall_connect(struct ibv_qp *qp, uint8_t port, uint8_t gid_index, uint8_t mtu, uint32_t number, uint32_t psn, uint16_t lid, uint8_t *gid, uint32_t own_psn);
int squall_init(struct ibv_qp *qp, uint8_t port);
int squall_drain(struct ibv_comp_channel *channel);
int squall_port(struct ibv_context *context, uint8_t port, int *active, uint8_t *mtu, uint16_t *lid, int *roce, uint32_t *most);
int squall_event_port(struct ibv_async_event *e);
