"""LangChain's and LlamaIndex's classes for OpenAI get the model's results from a server."""

import numpy as np
import pytest

QUESTION = "How do the French say eighty-one?"
TEXTS = ["A kitten sleeps.", "Rates rose."]


def test_langchain_chats_whole_and_in_pieces(server, model_of):
    langchain_openai = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
    chat = langchain_openai.ChatOpenAI(
        model="chatter", base_url=f"{server[0]}/v1", api_key="any", max_retries=0, max_tokens=20
    )
    expected = model_of("chatter").chat([{"role": "user", "content": QUESTION}], max_new_tokens=20)
    assert chat.invoke(QUESTION).content == expected
    pieces = [piece.content for piece in chat.stream(QUESTION)]
    assert len(pieces) > 3
    assert "".join(pieces) == expected


def test_langchain_embeds(server, model_of):
    langchain_openai = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
    embeddings = langchain_openai.OpenAIEmbeddings(
        model="encoder", base_url=f"{server[0]}/v1", api_key="any", check_embedding_ctx_length=False
    )
    expected = model_of("encoder").embed(TEXTS)
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(embeddings.embed_query(TEXTS[0]), expected[0], atol=1e-6)


def test_llama_index_completes_and_chats(server, model_of):
    openai_like = pytest.importorskip(
        "llama_index.llms.openai_like", reason="needs llama-index-llms-openai-like"
    )
    given = {"api_base": f"{server[0]}/v1", "api_key": "any", "max_retries": 0, "max_tokens": 12}
    completer = openai_like.OpenAILike(model="python-completer", **given)
    expected = model_of("python-completer").generate("def read(", max_new_tokens=12, do_sample=False)
    assert completer.complete("def read(").text == expected
    assert list(completer.stream_complete("def read("))[-1].text == expected
    chat = openai_like.OpenAILike(model="chatter", is_chat_model=True, **given)
    messages = [{"role": "user", "content": QUESTION}]
    told = chat.chat([openai_like.base.ChatMessage(**one) for one in messages])
    assert told.message.content == model_of("chatter").chat(messages, max_new_tokens=12, do_sample=False)


def test_llama_index_embeds(server, model_of):
    embedding = pytest.importorskip(
        "llama_index.embeddings.openai", reason="needs llama-index-embeddings-openai"
    )
    encoder = embedding.OpenAIEmbedding(
        model_name="encoder", api_base=f"{server[0]}/v1", api_key="any", max_retries=0
    )
    np.testing.assert_allclose(
        encoder.get_text_embedding_batch(TEXTS), model_of("encoder").embed(TEXTS), atol=1e-6
    )
