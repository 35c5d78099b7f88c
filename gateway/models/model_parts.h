/* model_parts -- the files among the parts of a user's message (model.h), as each API writes them.
 *
 * Source:   Chat Completions: content parts image_url and file. Responses: input_image, input_file.
 *           Messages: blocks image and document, of which a text is a source of its own.
 * Thread:   any.
 * Owns:     nothing.
 */
#ifndef GATEWAY_MODELS_MODEL_PARTS_H
#define GATEWAY_MODELS_MODEL_PARTS_H

#include "gateway/models/model.h"
#include "proto/js.h"

/* Appends one part: a text, or a file with its data or its URL. */
typedef void (*model_part_put)(const struct js_doc *doc, uint32_t part, struct buf *out);
void model_part_put_chat(const struct js_doc *doc, uint32_t part, struct buf *out);
void model_part_put_responses(const struct js_doc *doc, uint32_t part, struct buf *out);
void model_part_put_anthropic(const struct js_doc *doc, uint32_t part, struct buf *out);

/* The parts of a message, an array; 0: it is a text. */
uint32_t model_parts_of(const struct js_doc *doc, uint32_t message);
void model_parts_put(const struct js_doc *doc, uint32_t parts, model_part_put put, struct buf *out);

bool model_part_is_image(struct str media_type);
/* Whether Anthropic's Messages have a block for it. */
bool model_part_is_anthropic(struct str media_type);
/* Whether the API takes a URL of it: Chat Completions of images, Responses of all, Messages of
 * images and PDF. */
bool model_part_links_chat(struct str media_type);
bool model_part_links_responses(struct str media_type);
bool model_part_links_anthropic(struct str media_type);

#endif
