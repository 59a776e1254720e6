//go:build linux && verbs && cgo

#include "shim.h"
#include <errno.h>
#include <string.h>

// squall_post posts receives and requests: one call for a flush. It returns an errno.
int squall_post(struct ibv_qp *qp, struct receive *receives, int nreceives, struct work *work, int nwork)
{
	if (nreceives > most_receives || nwork > most_work)
		return EINVAL;
	if (nreceives > 0) {
		struct ibv_recv_wr wr[most_receives], *bad;
		struct ibv_sge sge[most_receives];
		for (int i = 0; i < nreceives; i++) {
			sge[i] = (struct ibv_sge){receives[i].local, receives[i].bytes, receives[i].key};
			wr[i] = (struct ibv_recv_wr){.wr_id = receives[i].id, .sg_list = &sge[i], .num_sge = 1, .next = i + 1 < nreceives ? &wr[i + 1] : NULL};
		}
		int err = ibv_post_recv(qp, wr, &bad);
		if (err)
			return err;
	}
	if (nwork > 0) {
		struct ibv_send_wr wr[most_work], *bad;
		struct ibv_sge sge[most_work];
		for (int i = 0; i < nwork; i++) {
			struct work *w = &work[i];
			struct ibv_send_wr *s = &wr[i];
			sge[i] = (struct ibv_sge){w->local, w->bytes, w->local_key};
			s->wr_id = w->id;
			s->next = i + 1 < nwork ? &wr[i + 1] : NULL;
			s->sg_list = &sge[i];
			s->num_sge = 1;
			s->opcode = w->kind == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
			s->send_flags = (w->inlined ? IBV_SEND_INLINE : 0) | (w->signalled ? IBV_SEND_SIGNALED : 0);
			s->wr.rdma.remote_addr = w->remote;
			s->wr.rdma.rkey = w->remote_key;
		}
		return ibv_post_send(qp, wr, &bad);
	}
	return 0;
}

// squall_poll takes completions, and returns how many, or a negative errno.
int squall_poll(struct ibv_cq *cq, struct completion *into, int n)
{
	struct ibv_wc wc[most_completions];
	n = ibv_poll_cq(cq, n < most_completions ? n : most_completions, wc);
	for (int i = 0; i < n; i++)
		into[i] = (struct completion){.id = wc[i].wr_id, .pair = wc[i].qp_num, .bytes = wc[i].byte_len, .status = wc[i].status};
	return n < 0 ? -EIO : n;
}

// squall_init makes a new pair take receives.
int squall_init(struct ibv_qp *qp, uint8_t port)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

// squall_connect connects a pair to that of a peer. A message for which the peer has no receive is
// not tried again; a packet that is lost is, 7 times, half a second apart.
int squall_connect(struct ibv_qp *qp, uint8_t port, uint8_t gid_index, uint8_t mtu, uint32_t number, uint32_t psn, uint16_t lid, uint8_t *gid, uint32_t own_psn)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = number,
		.rq_psn = psn,
		.max_dest_rd_atomic = 0,
		.min_rnr_timer = 1,
		.ah_attr = {.dlid = lid, .port_num = port, .is_global = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}},
	};
	memcpy(&a.ah_attr.grh.dgid, gid, 16);
	int err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 0, .sq_psn = own_psn, .max_rd_atomic = 0};
	return ibv_modify_qp(qp, &s, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

// squall_drain takes all events out of a channel that does not wait, and returns how many.
int squall_drain(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;
	int n = 0;
	for (; ibv_get_cq_event(channel, &cq, &context) == 0; n++)
		ibv_ack_cq_events(cq, 1);
	return n;
}

// squall_port looks at a port.
int squall_port(struct ibv_context *context, uint8_t port, int *active, uint8_t *mtu, uint16_t *lid, int *roce, uint32_t *most)
{
	struct ibv_port_attr a;
	int err = ibv_query_port(context, port, &a);
	if (err)
		return err;
	*active = a.state == IBV_PORT_ACTIVE;
	*mtu = a.active_mtu;
	*lid = a.lid;
	*roce = a.link_layer == IBV_LINK_LAYER_ETHERNET;
	*most = a.max_msg_sz;
	return 0;
}

// squall_event_port is the port that an event is about, if it is about a port.
int squall_event_port(struct ibv_async_event *e) { return e->element.port_num; }
