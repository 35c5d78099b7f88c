/* mcp_content -- what a tools/call of the Model Context Protocol has come to.
 *
 * Shape:    pure readers of nodes.  A result is complete, wants input first, or is a task that
 *           goes on; mcp_content_put makes its content the text that a model gets.
 * Thread:   any.
 */
#ifndef PROTO_MCP_MCP_CONTENT_H
#define PROTO_MCP_MCP_CONTENT_H

#include "proto/mcp/mcp_message.h"

#define MCP_OUTPUT (64 * 1024) /* bytes of a result; the middle of a longer one is left out */

enum mcp_outcome {
    MCP_COMPLETE,
    MCP_INPUT,  /* answers to its inputRequests, then the call once more */
    MCP_TASK,   /* to be polled */
    MCP_STRANGE /* a kind that we do not know */
};

enum mcp_task_status {
    MCP_TASK_WORKING,
    MCP_TASK_INPUT,
    MCP_TASK_COMPLETED,
    MCP_TASK_FAILED,
    MCP_TASK_CANCELLED,
    MCP_TASK_STRANGE
};

struct mcp_task {
    enum mcp_task_status status;
    uint32_t id;      /* nodes, 0: none */
    uint32_t message; /* what it does */
    uint32_t inputs;  /* modern: what it wants to know */
    uint32_t result;  /* modern: once completed */
    uint32_t error;   /* modern: once failed */
    int64_t poll_ms;  /* 0: it does not say */
};

enum mcp_outcome mcp_outcome_of(const struct js_doc *doc, uint32_t result);
/* Reads an answer with a task in it, or that of tasks/get. */
void mcp_task_read(const struct js_doc *doc, uint32_t result, struct mcp_task *ret);
/* Appends the text for the model: text parts bare, joined by newlines, all else as text with its
 * type.  False: the tool says that it has failed. */
bool mcp_content_put(const struct js_doc *doc, uint32_t result, struct buf *out) MUST_USE;
/* Leaves out the middle of what is longer than MCP_OUTPUT, at borders of characters. */
void mcp_output_cut(struct buf *text);

#endif
