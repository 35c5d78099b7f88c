/** trouble.ts -- errors in a sentence for people: the words are the client's. */

export { detailOf, mayRetry, sentenceOf, type Wrong } from "@holdfast/client/sentences";
