/* Rules of the configuration that concern more than one key. */
#include "tests/support/config_kit.h"

#define PUBLIC_GUESTS                                                                             \
    "without auth.keys, anyone beyond loopback could connect as a guest; configure keys, or set " \
    "\"guests\": true\n"
#define JWKS_PLACE "auth.jwks_url: must begin with https://, or be on this machine\n"
#define KEYS "\"auth\":{\"keys\":[{\"kid\":\"k\",\"alg\":\"HS256\",\"secret_file\":\"s\"}]"

static void test_config_public_bind_wants_keys_or_guests(void **state)
{
    struct config_flags flags = {.listen = "[::]:80"};
    struct config c;
    (void)state;

    assert_faults(json("{'listen':'0.0.0.0:80'}"), "listen: " PUBLIC_GUESTS);
    assert_faults(json("{'listen':'0.0.0.0:80','guests':false}"), "listen: " PUBLIC_GUESTS);
    assert_faults_with("{}", &flags, "--listen: " PUBLIC_GUESTS);
    c = load(json("{'listen':'0.0.0.0:80','guests':true}"), NULL);
    config_done(&c);
    c = load(json("{'listen':'0.0.0.0:80'," KEYS "}}"), NULL);
    assert_false(c.serves_guests);
    config_done(&c);
}

static void test_config_public_cookie_wants_origins(void **state)
{
    struct config c;
    (void)state;

    assert_faults(json("{'listen':'0.0.0.0:80'," KEYS ",'cookie':'s'}}"),
                  "origins: must not be empty while auth.cookie is in use beyond loopback: only a "
                  "list keeps other sites from using their visitors' cookies\n");
    c = load(json("{'listen':'127.0.0.1:80'," KEYS ",'cookie':'s'}}"), NULL);
    config_done(&c);
    c = load(json("{'listen':'0.0.0.0:80','origins':['https://a']," KEYS ",'cookie':'s'}}"), NULL);
    config_done(&c);
}

static void test_config_listen_refuses_the_rest(void **state)
{
    static const char *const bad[] = {
        "8080",           ":8080",           "127.0.0.1", "127.0.0.1:",   "::1:8080",       "[::1]",
        "example.org:80", "127.0.0.1:65536", "1.2.3.4:x", "127.0.0.1:-1", "[127.0.0.1]:80", "*:80"};
    (void)state;

    for (size_t i = 0; i < countof(bad); i++) {
        struct config_flags flags = {.listen = bad[i]};
        assert_faults_with(
            json("{'guests':true}"), &flags,
            "--listen: must be ADDRESS:PORT, such as 127.0.0.1:8080, 0.0.0.0:8080 or "
            "[::1]:0\n");
    }
}

static void test_config_bad_flags_are_faults(void **state)
{
    struct config_flags flags = {.data = "", .log_level = "loud", .log_format = "xml"};
    (void)state;

    assert_faults_with("{}", &flags,
                       "--data: must name a directory\n"
                       "--log-level: must be one of \"debug\", \"info\", \"warn\", \"error\"\n"
                       "--log-format: must be one of \"logfmt\", \"json\"\n");
}

static void test_config_keys_must_fit_their_algorithm(void **state)
{
    const struct {
        const char *keys, *faults;
    } rows[] = {
        {"{}", "auth.keys[0].kid: is missing\nauth.keys[0].alg: is missing\n"
               "auth.keys[0].secret_file: is missing (HS256 needs it)\n"},
        {json("{'kid':'a','alg':'none','secret_file':'s'}"),
         "auth.keys[0].alg: must be one of \"HS256\", \"RS256\", \"ES256\", \"EdDSA\"\n"},
        {json("{'kid':'a','alg':'HS256','public_key_file':'p'}"),
         "auth.keys[0].secret_file: is missing (HS256 needs it)\n"
         "auth.keys[0].public_key_file: is not for HS256, which needs a secret\n"},
        {json("{'kid':'a','alg':'EdDSA','secret_file':'p'}"),
         "auth.keys[0].secret_file: is for HS256 only\n"
         "auth.keys[0].public_key_file: is missing (EdDSA needs it)\n"},
        {json("{'kid':'guest','alg':'HS256','secret_file':'s'}"),
         "auth.keys[0].kid: \"guest\" is the gateway's own key\n"},
        {json("{'kid':'a','alg':'HS256','secret_file':'s'},"
              "{'kid':'a','alg':'HS256','secret_file':'t'}"),
         "auth.keys[1].kid: is the same as that of auth.keys[0]\n"},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        char json[256];
        snprintf(json, sizeof json, json("{'auth':{'keys':[%s]}}"), rows[i].keys);
        assert_faults(json, rows[i].faults);
    }
}

#define KEPT "{'agents':[{'name':'a','kind':'exec','command':['x'],'keep_s':%d%s}]%s}"
#define OVER_PG ",'store':{'kind':'postgres','url_file':'u'},'cluster':{'secret_file':'s'"
#define NOT_KEPT \
    "agents[0] (a).keep_s: is for agents of kind exec and acp that are kept, and whose tasks go on\n"

/* Over PostgreSQL the next gateway may have to wait for the lease of the last one. */
static void test_config_program_lives_until_its_gateway_can_come(void **state)
{
    const struct {
        int keep_s;
        const char *agent, *more, *faults;
    } rows[] = {
        {5, "", "", ""},
        {5, json(",'kept':false"), "", NOT_KEPT},
        {5, json(",'after_restart':'fail'"), "", NOT_KEPT},
        {60, json(",'kept':false"), "", ""},
        {10, "", json(OVER_PG "}"), ""},
        {9, "", json(OVER_PG "}"),
         "agents[0] (a).keep_s: must be at least cluster.lease_s (10): the next gateway may have to "
         "wait for the store that long, and would find no program\n"},
        {9, "", json(OVER_PG ",'lease_s':9}"), ""},
        {60, json(",'after_restart':'continue'"), json(",'store':{'kind':'memory'}"),
         "agents[0] (a).after_restart: cannot be \"continue\" where store.kind is memory: no task is "
         "there after a restart\n"},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, json(KEPT), rows[i].keep_s, rows[i].agent, rows[i].more);
        assert_faults(text, rows[i].faults);
    }
}

struct unfit {
    const char *agents, *faults;
};

static void assert_unfit(const struct unfit *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[256];
        snprintf(text, sizeof text, json("{'agents':[%s]}"), rows[i].agents);
        assert_faults(text, rows[i].faults);
    }
}

static void test_config_agents_must_fit_their_kind(void **state)
{
    const struct unfit rows[] = {
        {json("{'name':'a'},{'name':'a'}"),
         "agents[1] (a).name: is the same as that of agents[0]\n"},
        {json("{'name':''}"), "agents[0].name: must be a text of 1 to 128 bytes\n"},
        {json("{'name':'a\\nb'}"), "agents[0].name: must not have control characters\n"},
        {json("{'name':'a','default':true},{'name':'b','default':true}"),
         "agents[1] (b).default: agents[0] is the default already\n"},
        {json("{'name':'a','kind':'exec'}"),
         "agents[0] (a).command: is missing: a program to run\n"},
        {json("{'name':'a','kind':'exec','command':['']}"),
         "agents[0] (a).command: is missing: a program to run\n"},
        {json("{'name':'a','kind':'http'}"), "agents[0] (a).url: is missing\n"},
        {json("{'name':'a','kind':'source','after_restart':'continue'}"),
         "agents[0] (a).after_restart: \"continue\" is for agents of kind react and http, and for those "
         "of kind exec and acp that are kept\n"},
        {json("{'name':'a','kind':'http','url':'http://x','after_restart':'continue'}"), ""},
        {json("{'name':'a','kind':'acp'}"),
         "agents[0] (a).command: is missing: a program to run\n"},
        {json("{'name':'a','kind':'http','url':'ftp://x'}"),
         "agents[0] (a).url: must begin with http:// or https://\n"},
        {json("{'name':'a','model':'b'}"),
         "agents[0] (a).model: must name an entry of models, or be \"builtin\"\n"},
        {json("{'name':'a','command':['x']}"),
         "agents[0] (a).command: is for agents of kind exec only\n"},
        {json("{'name':'a','kind':'exec','command':['x'],'model':'builtin'}"),
         "agents[0] (a).model: is for agents of kind react only\n"},
        {json("{'name':'a','kind':'exec','command':['x'],'env':{'A=B':'','C':1}}"),
         "agents[0] (a).env.A=B: is not a valid name of an environment variable\n"
         "agents[0] (a).env.C: must be a text\n"},
    };
    (void)state;
    assert_unfit(rows, countof(rows));
}

static void test_config_forms_must_fit_their_agents(void **state)
{
    const struct unfit rows[] = {
        {json("{'name':'a','kind':'acp','command':['x'],'form':'text'}"),
         "agents[0] (a).form: \"text\" is for agents of kind exec only\n"},
        {json("{'name':'a','kind':'http','url':'http://x','form':'claude'}"),
         "agents[0] (a).form: \"claude\" is for agents of kind exec only\n"},
        {json("{'name':'a','kind':'exec','command':['x'],'form':'ag-ui'}"),
         "agents[0] (a).form: \"ag-ui\" is for agents of kind http only\n"},
        {json("{'name':'a','form':'a2a'}"),
         "agents[0] (a).form: \"a2a\" is for agents of kind http only\n"},
        {json("{'name':'a','kind':'http','url':'http://x','form':'a2a','model':'m'}"),
         "agents[0] (a).model: is for agents of kind react, and for the forms openai, responses and "
         "langgraph only\n"},
        {json("{'name':'a','kind':'http','url':'http://x','model':'m','tools':['clock']}"),
         "agents[0] (a).model: is for agents of kind react, and for the forms openai, responses and "
         "langgraph only\n"
         "agents[0] (a).tools: are for agents that call them: one of kind http cannot\n"},
        {json("{'name':'a','kind':'acp','command':['x'],'tools':['clock']}"),
         "agents[0] (a).tools: are for programs of the form holdfast only: others have tools of their "
         "own\n"},
        {json("{'name':'a','kind':'exec','form':'claude','command':['x'],'tools':['clock']}"),
         "agents[0] (a).tools: are for programs of the form holdfast only: others have tools of their "
         "own\n"},
        {json("{'name':'a','kind':'exec','form':'codex','command':['x'],"
              "'input':'argument'}"),
         "agents[0] (a).input: is for the form text only\n"},
        {json("{'name':'a','kind':'exec','form':'json','command':['x']}"),
         "agents[0] (a).form: must be one of \"holdfast\", \"text\", \"claude\", \"codex\", "
         "\"openai\", \"responses\", \"ag-ui\", \"a2a\", \"ai-sdk\", \"langgraph\"\n"},
    };
    (void)state;
    assert_unfit(rows, countof(rows));
}

static void test_config_other_rules(void **state)
{
    const struct {
        const char *json, *faults;
    } rows[] = {
        {json("{'models':[{'name':'builtin','base_url':'http://x','model':'m'}]}"),
         "models[0].name: \"builtin\" is always the builtin model\n"},
        {json("{'models':[{'name':'m','base_url':'http://x','model':'m','api_key_env':'A',"
              "'api_key_file':'f','headers':{'a b':'1','X':'sekrit\\nX: y','Y':5}}]}"),
         "models[0].headers.a b: is not a valid header name\n"
         "models[0].headers.X: must be a text of one line\n"
         "models[0].headers.Y: must be a text\n"
         "models[0].api_key_file: cannot be used together with api_key_env\n"},
        {json("{'traces':{'url':'127.0.0.1:4318'}}"),
         "traces.url: must begin with http:// or https://\n"},
        {json("{'http_get':{'allow':['here']}}"),
         "http_get.allow[0]: must be an address or a network, such as 10.0.0.0/8\n"},
        {json("{'agents':[{'name':'a','kind':'exec','command':['x'],'tools':['clock',"
              "'spawn_task'],'headers':{'X':'1'}}]}"),
         "agents[0] (a).headers: is for agents of kind http only\n"
         "agents[0] (a).tools[1]: is for agents of kind react only: others have their own calls for "
         "it\n"},
        {json("{'tls':{'key':'k'}}"), "tls.cert: is missing: a certificate needs its key\n"},
        {json("{'auth':{'cookie':'a b'}}"), "auth.cookie: is not a valid cookie name\n"},
        {json("{'auth':{'tenant_claim':'org'}}"),
         "auth.tenant_claim: is for tokens of auth.keys or auth.jwks_url: give one\n"},
        {json("{'auth':{'jwks_url':'https://id.example/keys','tenant_claim':'org'}}"), ""},
        {json("{'auth':{'jwks_url':'https://id.example/keys'}}"), ""},
        {json("{'auth':{'jwks_url':'http://[::1]/keys'}}"), ""},
        {json("{'auth':{'jwks_url':'http://localhost'}}"), ""},
        {json("{'auth':{'jwks_url':'http://id.example/keys'}}"), JWKS_PLACE},
        {json("{'auth':{'jwks_url':'http://127.0.0.1.example/keys'}}"), JWKS_PLACE},
        {json("{'auth':{'jwks_url':'http://127.0.0.1:1@id.example/keys'}}"), JWKS_PLACE},
        {json("{'auth':{'jwks_url':'file:///etc/keys'}}"), JWKS_PLACE},
        {json("{'trusted_proxies':['10.0.0.1/8']}"),
         "trusted_proxies[0]: must be an address or a network, such as 10.0.0.0/8\n"},
        {json("{'metrics':{'allow':['localhost']}}"),
         "metrics.allow[0]: must be an address or a network, such as 10.0.0.0/8\n"},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++)
        assert_faults(rows[i].json, rows[i].faults);
    struct config c = load(json("{'agents':[]}"), NULL);
    assert_string_equal(c.agents[0].name, "assistant");
    config_done(&c);
}

/* --- printing --------------------------------------------------------------------------------- */

static void test_config_coders_work_in_the_conversations_folder(void **state)
{
    static const struct {
        const char *agent, *cwd;
    } rows[] = {
        {"{\"name\":\"a\",\"kind\":\"acp\",\"command\":[\"x\"]}", "workspace"},
        {"{\"name\":\"a\",\"kind\":\"acp\",\"command\":[\"x\"],\"cwd\":\"/srv\"}", "/srv"},
        {"{\"name\":\"a\",\"kind\":\"exec\",\"form\":\"claude\",\"command\":[\"x\"]}", "workspace"},
        {"{\"name\":\"a\",\"kind\":\"exec\",\"form\":\"codex\",\"command\":[\"x\"]}", "workspace"},
        {"{\"name\":\"a\",\"kind\":\"exec\",\"form\":\"text\",\"command\":[\"x\"]}", NULL},
        {"{\"name\":\"a\",\"kind\":\"exec\",\"command\":[\"x\"]}", NULL},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"agents\":[%s]}", rows[i].agent);
        struct config c = load(text, NULL);
        if (rows[i].cwd)
            assert_string_equal(c.agents[0].cwd, rows[i].cwd);
        else
            assert_null(c.agents[0].cwd);
        config_done(&c);
    }
}

static void test_config_coders_for_guests_are_warned_of(void **state)
{
    (void)state;
    struct buf warnings = {0};
    struct config c =
        load("{\"listen\":\"0.0.0.0:80\",\"guests\":true,\"hosts\":[\"a\"],\"agents\":"
             "[{\"name\":\"a\",\"kind\":\"acp\",\"command\":[\"x\"]}]}",
             NULL);
    assert_int_equal(config_warn(&c, &warnings), 1);
    assert_string_equal(warnings.bytes, "agents[0]: runs commands without a sandbox, for guests "
                                        "that come from beyond loopback\n");
    config_done(&c);
    buf_done(&warnings);
}

#define WORKER_AGENT "{'name':'a','kind':'worker'}"

#define MODEL(more)                                                             \
    json("{'models':[{'name':'m','base_url':'http://a','model':'x'," more "}]," \
         "'agents':[{'name':'a'}]}")

static void test_config_models_have_the_keys_of_their_api(void **state)
{
    const struct {
        const char *text, *faults;
    } rows[] = {
        {MODEL("'api':'chat','max_tokens':5"),
         "models[0].max_tokens: is for the api responses or anthropic only\n"},
        {MODEL("'api':'responses','thinking_tokens':5"),
         "models[0].thinking_tokens: is for the api anthropic only\n"},
        {MODEL("'api':'anthropic','thinking_tokens':5,'effort':'low'"),
         "models[0].thinking_tokens: cannot be used together with effort\n"},
        {MODEL("'api':'anthropic','thinking_tokens':5,'max_tokens':5"),
         "models[0].thinking_tokens: must be less than max_tokens\n"},
        {json("{'agents':[{'name':'a','kind':'source','budget':{'tokens':5}}]}"),
         "agents[0] (a).budget: an agent of kind source has none\n"},
    };
    struct config c;
    (void)state;

    for (size_t i = 0; i < countof(rows); i++)
        assert_faults(rows[i].text, rows[i].faults);
    c = load(MODEL("'api':'anthropic','thinking_tokens':5,'max_tokens':6"), NULL);
    assert_int_equal(c.models[0].api, API_ANTHROPIC);
    config_done(&c);
}

static void test_config_mcp_servers_are_programs_or_urls(void **state)
{
    const struct {
        const char *servers, *faults;
    } rows[] = {
        {"{}", "mcp[0].name: is missing\nmcp[0].command: is missing: a program to run, or a url\n"},
        {json("{'name':'a_b','command':['x']}"),
         "mcp[0].name: must be of small letters, digits and -\n"},
        {json("{'name':'a','command':['x']},{'name':'a','url':'http://x'}"),
         "mcp[1].name: is the same as that of an entry before it\n"},
        {json("{'name':'a','command':['x'],'url':'http://x'}"),
         "mcp[0].url: cannot be used together with command\n"},
        {json("{'name':'a','command':['']}"), "mcp[0].command: is missing: a program to run\n"},
        {json("{'name':'a','url':'ftp://x'}"), "mcp[0].url: must begin with http:// or https://\n"},
        {json("{'name':'a','url':'http://x','env':{'K':'v'},'sandbox':'bubblewrap'}"),
         "mcp[0].env: is for servers with a command only\n"
         "mcp[0].sandbox: is for servers with a command only\n"},
        {json("{'name':'a','command':['x'],'headers':{'K':'v'},'headers_file':'f'}"),
         "mcp[0].headers: is for servers with a url only\n"
         "mcp[0].headers_file: is for servers with a url only\n"},
        {json("{'name':'a','command':['x'],'paths':['/p'],'network':true}"),
         "mcp[0].network: is for the sandbox bubblewrap only: without one there is no bound\n"
         "mcp[0].paths[0]: is for the sandbox bubblewrap only: without one there is no bound\n"},
        {json("{'name':'a','command':['x'],'sandbox':'bubblewrap','paths':['p:ro']}"),
         "mcp[0].paths[0]: must be an absolute path, or one that ends in :ro\n"},
        {json("{'name':'a','command':['x'],'approve':'sometimes'}"),
         "mcp[0].approve: must be one of \"unless_read_only\", \"always\", \"never\"\n"},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        char json[512];
        snprintf(json, sizeof json, json("{'mcp':[%s]}"), rows[i].servers);
        assert_faults(json, rows[i].faults);
    }
}

static void test_config_agents_list_tools_of_mcp_servers(void **state)
{
    const char *unknown =
        "agents[0] (g).tools[0]: must be mcp:SERVER/TOOL or mcp:SERVER/*, and SERVER "
        "the name of an entry of mcp\n";
    const struct {
        const char *agent, *faults;
    } rows[] = {
        {json("'tools':['mcp:a/x','mcp:b/*']"), ""},
        {json("'kind':'acp','command':['x'],'tools':['mcp:a/*']"), ""},
        {json("'tools':['mcp:c/x']"), unknown},
        {json("'tools':['mcp:a']"), unknown},
        {json("'tools':['mcp:a/']"), unknown},
        {json("'kind':'exec','command':['x'],'tools':['mcp:a/x']"),
         "agents[0] (g).tools[0]: is for agents of the kinds react and acp only\n"},
        {json("'kind':'acp','command':['x'],'tools':['mcp:a/x']"),
         "agents[0] (g).tools[0]: must be mcp:SERVER/*: an agent of kind acp gets whole servers\n"},
        {json("'kind':'acp','command':['x'],'tools':['mcp:b/*']"),
         "agents[0] (g).tools[0]: names a server with allow: an agent of kind acp would get all of it\n"},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        char json[512];
        snprintf(
            json, sizeof json,
            json(
                "{'mcp':[{'name':'a','command':['x']},{'name':'b','url':'http://x','allow':['t']}],"
                "'agents':[{'name':'g',%s}]}"),
            rows[i].agent);
        assert_faults(json, rows[i].faults);
    }
}

static void test_config_workers_and_their_agents_name_each_other(void **state)
{
    (void)state;
    struct config c = load(json("{'agents':[" WORKER_AGENT "],'workers':"
                                "[{'name':'w','secret_file':'s','agents':['a']}]}"),
                           NULL);
    assert_int_equal(c.agents[0].wait_s, 60);
    assert_int_equal(c.workers[0].runs, 256);
    assert_int_equal(c.workers[0].instances, 64);
    assert_int_equal(c.worker_grace_s, 30);
    config_done(&c);
    assert_faults(
        json("{'agents':[" WORKER_AGENT "]}"),
        "agents[0] (a).kind: no entry of workers names this agent, so nobody serves it\n");
    assert_faults(json("{'agents':[" WORKER_AGENT ",{'name':'b','rerun':true}],'workers':"
                       "[{'name':'w','secret_file':'s','agents':['a']},"
                       "{'name':'w','secret_file':'s','agents':['b','c']},{'name':'x'}]}"),
                  "workers[2].secret_file: is missing\n"
                  "workers[2].agents: is missing\n"
                  "agents[1] (b).rerun: is for agents of kind worker only\n"
                  "workers[1].name: is the same as that of workers[0]\n"
                  "workers[1].agents[0]: must name an agent of kind worker\n"
                  "workers[1].agents[1]: must name an agent of kind worker\n");
}

static void test_config_links_of_a_cluster(void **state)
{
    (void)state;
    struct config c = load(json("{'store':{'kind':'postgres','url_file':'u'},'cluster':"
                                "{'secret_file':'s','listen':'0.0.0.0:8090'}}"),
                           NULL);
    assert_string_equal(c.cluster.advertise, "0.0.0.0:8090");
    config_done(&c);
    assert_faults(json("{'cluster':{'listen':'8090','advertise':'name'}}"),
                  "cluster.advertise: must be HOST:PORT\n"
                  "cluster.listen: must be ADDRESS:PORT, such as 10.0.0.5:8090\n"
                  "cluster.listen: needs store.kind \"postgres\" and cluster.secret_file\n");
}

static void test_config_postgres_has_what_it_needs(void **state)
{
    struct config c;
    (void)state;

    c = load(json("{'store':{'kind':'postgres','url_file':'u'},'cluster':{'secret_file':'s'}}"),
             NULL);
    assert_int_equal(c.store.durability, DURABLE_POWER);
    assert_int_equal(c.cluster.lease_s, 10);
    assert_true(c.cluster.node && c.cluster.node[0]);
    config_done(&c);
    c = load(json("{'store':{'kind':'postgres','url_file':'u','durability':'replicated'}," KEYS
                  "},'cluster':{'node':'n'}}"),
             NULL); /* without guests nothing comes from the secret */
    assert_string_equal(c.cluster.node, "n");
    config_done(&c);
    assert_faults(json("{'store':{'kind':'postgres','durability':'process'}}"),
                  "store.durability: must be \"power\" or \"replicated\" with store.kind "
                  "\"postgres\": a crash of the server would lose what was acknowledged\n"
                  "store.url_file: is missing: store.kind \"postgres\" needs it\n"
                  "cluster.secret_file: is missing: guests must be the same on every machine (or "
                  "configure auth.keys)\n");
    assert_faults(json("{'store':{'durability':'replicated','url_file':'u'}}"),
                  "store.durability: \"replicated\" needs store.kind \"postgres\"\n"
                  "store.url_file: needs store.kind \"postgres\"\n");
}

/* A model's server cannot be told of an address that it does not reach. */
static void test_config_models_get_urls_where_they_can_be_reached(void **state)
{
    static const struct {
        const char *page, *files;
        uint32_t result;
    } rows[] = {
        {"https://chat.example/", NULL, FILES_URL},
        {"https://chat.example:8443/a?b", NULL, FILES_URL},
        {"https://chat.example", "data", FILES_DATA},
        {"", NULL, FILES_DATA},
        {"http://chat.example/", NULL, FILES_DATA},
        {"https://localhost:8443/", NULL, FILES_DATA},
        {"https://a.localhost/", NULL, FILES_DATA},
        {"https://127.0.0.1/", NULL, FILES_DATA},
        {"https://[::1]:8443/", NULL, FILES_DATA},
        {"https://10.0.0.1/", NULL, FILES_DATA},
        {"https://8.8.8.8/", NULL, FILES_URL},
        {"http://127.0.0.1:8080/", "url", FILES_URL}, /* its server is on this machine too */
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct buf text = {0};
        buf_putf(&text, "{\"models\":[{\"name\":\"m\",\"base_url\":\"http://x\",\"model\":\"m\"");
        if (rows[i].files)
            buf_putf(&text, ",\"files\":\"%s\"", rows[i].files);
        buf_puts(&text, "}]");
        if (*rows[i].page)
            buf_putf(&text, ",\"public_url\":\"%s\"", rows[i].page);
        buf_puts(&text, "}");
        struct config c = load(text.bytes, NULL);
        assert_int_equal(c.models[0].files, rows[i].result);
        config_done(&c);
        buf_done(&text);
    }
    assert_faults(json("{'models':[{'name':'m','base_url':'http://x','model':'m','files':'url'}]}"),
                  "models[0].files: needs public_url\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_public_bind_wants_keys_or_guests),
        cmocka_unit_test(test_config_public_cookie_wants_origins),
        cmocka_unit_test(test_config_listen_refuses_the_rest),
        cmocka_unit_test(test_config_bad_flags_are_faults),
        cmocka_unit_test(test_config_keys_must_fit_their_algorithm),
        cmocka_unit_test(test_config_agents_must_fit_their_kind),
        cmocka_unit_test(test_config_forms_must_fit_their_agents),
        cmocka_unit_test(test_config_program_lives_until_its_gateway_can_come),
        cmocka_unit_test(test_config_coders_work_in_the_conversations_folder),
        cmocka_unit_test(test_config_coders_for_guests_are_warned_of),
        cmocka_unit_test(test_config_models_have_the_keys_of_their_api),
        cmocka_unit_test(test_config_models_get_urls_where_they_can_be_reached),
        cmocka_unit_test(test_config_mcp_servers_are_programs_or_urls),
        cmocka_unit_test(test_config_agents_list_tools_of_mcp_servers),
        cmocka_unit_test(test_config_workers_and_their_agents_name_each_other),
        cmocka_unit_test(test_config_links_of_a_cluster),
        cmocka_unit_test(test_config_postgres_has_what_it_needs),
        cmocka_unit_test(test_config_other_rules),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
