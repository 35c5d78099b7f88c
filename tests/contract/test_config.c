/* The configuration: defaults, every kind of fault with its key's path, and what goes together.
 */
#include "proto/js.h"
#include "tests/support/config_kit.h"

/* --- valid files ------------------------------------------------------------------------------ */

static void test_config_defaults_are_those_of_the_manual(void **state)
{
    struct config c = load(NULL, NULL);
    const struct config_agent *a = c.agents;
    (void)state;

    assert_string_equal(c.listen_host, "127.0.0.1");
    assert_int_equal(c.listen_port, 8080);
    assert_true(c.is_loopback && c.serves_guests && !c.guests);
    assert_string_equal(c.data, "/nonexistent/.local/state/holdfast");
    assert_int_equal(c.n_agents, 1);
    assert_string_equal(a->name, "assistant");
    assert_string_equal(a->model, "builtin");
    assert_string_equal(a->description, "");
    assert_int_equal(a->kind, AGENT_REACT);
    assert_true(a->is_default);
    assert_int_equal(a->timeout_s, 1800);
    assert_int_equal(a->idle_timeout_s, 300);
    assert_int_equal(a->grace_s, 5);
    assert_int_equal(c.store.kind, STORE_SQLITE);
    assert_int_equal(c.store.durability, DURABLE_PROCESS);
    assert_int_equal(c.store.replay_cache_mib, 64);
    assert_int_equal(c.store.retry_s, 30);
    assert_int_equal(c.retention.task_days, 30);
    assert_int_equal(c.retention.store_gib, 50);
    assert_int_equal(c.drain_s, 20);
    assert_int_equal(c.log.level, LEVEL_INFO);
    assert_int_equal(c.log.format, FORMAT_LOGFMT);
    config_done(&c);
}

static void test_config_default_limits_are_those_of_the_manual(void **state)
{
    struct config c = load(NULL, NULL);
    struct hub_limits l = c.limits;
    (void)state;

    assert_int_equal(c.rim_limits.connections, 100000);
    assert_int_equal(c.rim_limits.connections_per_address, 200);
    assert_int_equal(c.rim_limits.store_mib_per_owner, 5120);
    config_done(&c);
    assert_int_equal(l.requests_per_second, 50);
    assert_int_equal(l.burst, 200);
    assert_int_equal(l.message_bytes, 65536);
    assert_int_equal(l.tasks, 10000);
    assert_int_equal(l.tasks_per_owner, 32);
    assert_int_equal(l.processes, 256);
    assert_int_equal(l.task_bytes, 1 << 30);
    assert_int_equal(l.task_events, 10000000);
    assert_int_equal(l.inbox_messages, 1000);
    assert_int_equal(l.inbox_bytes, 1 << 20);
    assert_int_equal(l.subscriptions, 1000);
}

static const char full[] =
    "{\"listen\":\"0.0.0.0:8443\",\"tls\":{\"cert\":\"c.pem\",\"key\":\"k.pem\"},\"data\":\"d\","
    "\"origins\":[\"https://chat.example\",\"https://*.sub.example\"],"
    "\"auth\":{\"keys\":[{\"kid\":\"k1\",\"alg\":\"RS256\",\"public_key_file\":\"p\"},"
    "{\"kid\":\"k2\",\"alg\":\"HS256\",\"secret_file\":\"s\"}],\"issuer\":\"i\",\"audience\":\"a\","
    "\"cookie\":\"session\"},\"guests\":true,"
    "\"models\":[{\"name\":\"local\",\"kind\":\"openai\",\"base_url\":\"http://u:pass@h/v1\","
    "\"model\":\"qwen3\",\"api_key_env\":\"KEY\"},{\"name\":\"b\",\"kind\":\"builtin\"}],"
    "\"agents\":[{\"name\":\"assistant\",\"model\":\"local\",\"tools\":[\"calculator\"]},"
    "{\"name\":\"coder\",\"kind\":\"exec\",\"command\":[\"python3\",\"a.py\"],\"timeout_s\":600,"
    "\"env\":{\"A\":\"hidden=1\",\"B\":\"\"},\"cwd\":\"/tmp\",\"default\":true},"
    "{\"name\":\"graph\",\"kind\":\"http\",\"url\":\"https://h/run\"},"
    "{\"name\":\"plain\",\"model\":\"b\"}],"
    "\"store\":{\"kind\":\"memory\",\"durability\":\"power\"},\"limits\":{\"task_bytes\":5000},"
    "\"retention\":{\"store_gib\":10},\"trusted_proxies\":[\"10.0.0.0/8\",\"::1\"],"
    "\"metrics\":{\"allow\":[\"10.1.0.0/16\"],\"public\":true},\"drain_s\":1,"
    "\"log\":{\"level\":\"debug\",\"format\":\"json\"}}";

static void test_config_file_fills_everything_in(void **state)
{
    struct config c = load(full, NULL);
    struct net_address proxy;
    (void)state;

    assert_string_equal(c.listen_host, "0.0.0.0");
    assert_false(c.is_loopback);
    assert_true(c.serves_guests);
    assert_int_equal(c.auth.n_keys, 2);
    assert_int_equal(c.auth.keys[1].alg, ALG_HS256);
    assert_string_equal(c.auth.keys[1].secret_file, "s");
    assert_string_equal(c.auth.cookie, "session");
    assert_string_equal(c.parsed_origins.list[0].host, "chat.example");
    assert_true(c.parsed_origins.list[1].subdomains);
    assert_string_equal(config_find_model(&c, "local")->model, "qwen3");
    assert_null(config_find_model(&c, "b"));
    assert_null(config_find_model(&c, "builtin"));
    assert_false(c.agents[0].is_default);
    assert_true(c.agents[1].is_default);
    assert_string_equal(c.agents[1].command.list[1], "a.py");
    assert_null(c.agents[1].command.list[2]);
    assert_string_equal(c.agents[1].env.list[0], "A=hidden=1");
    assert_string_equal(c.agents[1].env.list[1], "B=");
    assert_null(c.agents[1].env.list[2]);
    assert_int_equal(c.agents[1].timeout_s, 600);
    assert_int_equal(c.agents[2].timeout_s, 1800);
    assert_int_equal(c.limits.task_bytes, 5000);
    assert_int_equal(c.rim_limits.store_mib_per_owner, 1024);
    assert_true(net_parse_address(STR("10.9.9.9"), &proxy));
    assert_true(net_list_has(c.trusted_nets, c.trusted_proxies.n, &proxy));
    assert_false(net_list_has(c.metrics.allow_nets, c.metrics.allow.n, &proxy));
    assert_true(c.metrics.is_public);
    assert_int_equal(c.log.format, FORMAT_JSON);
    config_done(&c);
}

static void test_config_listen_takes_addresses(void **state)
{
    static const struct {
        const char *listen, *host;
        uint16_t port;
        bool loopback;
    } rows[] = {
        {"127.0.0.1:0", "127.0.0.1", 0, true},        {"[::1]:0", "::1", 0, true},
        {"localhost:80", "127.0.0.1", 80, true},      {"127.9.9.9:65535", "127.9.9.9", 65535, true},
        {"0.0.0.0:80", "0.0.0.0", 80, false},         {"[::]:80", "::", 80, false},
        {"192.168.1.1:80", "192.168.1.1", 80, false},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        struct config_flags flags = {.listen = rows[i].listen};
        struct config c = load(json("{'guests':true}"), &flags);
        assert_string_equal(c.listen_host, rows[i].host);
        assert_int_equal(c.listen_port, rows[i].port);
        assert_int_equal(c.is_loopback, rows[i].loopback);
        config_done(&c);
    }
}

static void test_config_flags_win(void **state)
{
    struct config_flags flags = {"127.0.0.1:1", "there", "warn", "json"};
    struct config c = load(json("{'listen':'0.0.0.0:2','data':'here'}"), &flags);
    (void)state;

    assert_int_equal(c.listen_port, 1);
    assert_string_equal(c.data, "there");
    assert_int_equal(c.log.level, LEVEL_WARN);
    assert_int_equal(c.log.format, FORMAT_JSON);
    config_done(&c);
}

static void test_config_data_follows_xdg(void **state)
{
    (void)state;
    setenv("XDG_STATE_HOME", "/state", 1);
    struct config c = load(NULL, NULL);
    assert_string_equal(c.data, "/state/holdfast");
    config_done(&c);
    setenv("XDG_STATE_HOME", "relative", 1);
    c = load(NULL, NULL);
    assert_string_equal(c.data, "/nonexistent/.local/state/holdfast");
    config_done(&c);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_faults("{}", "data: is missing, and without HOME there is no default\n");
    setenv("HOME", "/nonexistent", 1);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void test_config_value_out_of_range_says_the_range(void **state)
{
    const char *const values[] = {"0",           "-1",   "100001", "1.5", "200.0",
                                  json("'200'"), "null", "[1]",    "true"};
    (void)state;

    for (size_t i = 0; i < countof(values); i++) {
        char json[64];
        snprintf(json, sizeof json, json("{'limits':{'burst':%s}}"), values[i]);
        assert_faults(json, "limits.burst: must be an integer from 1 to 100000\n");
    }
}

static void test_config_value_of_wrong_type_says_the_right_one(void **state)
{
    const struct {
        const char *json, *faults;
    } rows[] = {
        {json("{'guests':1}"), "guests: must be true or false\n"},
        {json("{'guests':null}"), "guests: must be true or false\n"},
        {json("{'listen':8080}"), "listen: must be a text of 1 to 128 bytes\n"},
        {json("{'data':''}"), "data: must be a text of 1 to 4096 bytes\n"},
        {json("{'log':{'level':'loud'}}"),
         "log.level: must be one of \"debug\", \"info\", \"warn\", \"error\"\n"},
        {json("{'store':{'kind':1}}"),
         "store.kind: must be one of \"sqlite\", \"memory\", \"postgres\"\n"},
        {json("{'limits':[]}"), "limits: must be an object\n"},
        {json("{'agents':{}}"), "agents: must be a list of at most 1024 objects\n"},
        {json("{'origins':'https://a'}"), "origins: must be a list of at most 1024 texts\n"},
        {json("{'origins':['https://a',1]}"), "origins[1]: must be a text\n"},
        {"[]", "configuration: must be an object\n"},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++)
        assert_faults(rows[i].json, rows[i].faults);
}

static void test_config_unknown_key_names_the_nearest(void **state)
{
    const struct {
        const char *json, *faults;
    } rows[] = {
        {json("{'limit':{}}"), "limit: unknown key; the nearest one is limits\n"},
        {json("{'Listen':1}"), "Listen: unknown key; the nearest one is listen\n"},
        {json("{'limits':{'burts':1}}"),
         "limits.burts: unknown key; the nearest one is limits.burst\n"},
        {json("{'burst':1}"), "burst: unknown key; the nearest one is limits.burst\n"},
        {json("{'tasks_per_user':1}"),
         "tasks_per_user: unknown key; the nearest one is limits.tasks_per_owner\n"},
        {json("{'agents':[{'name':'a','models':'b'}]}"),
         "agents[0] (a).models: unknown key; the nearest one is agents[].model\n"},
        {json("{'cookie':'x'}"), "cookie: unknown key; the nearest one is auth.cookie\n"},
        {json("{'a\\u0007b\\u001b':1}"), "a?b?: unknown key; holdfast keys lists all\n"},
        {json("{'port':1}"), "port: unknown key; holdfast keys lists all\n"},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++)
        assert_faults(rows[i].json, rows[i].faults);
}

static void test_config_all_faults_are_told(void **state)
{
    (void)state;
    assert_faults(json("{'limits':{'burst':0,'tasks':'x'},'stroe':1,"
                       "'agents':[{'name':'a','kind':'exec'},{'kind':'react'}],"
                       "'models':[{'name':'m'}],'origins':['x']}"),
                  "limits.burst: must be an integer from 1 to 100000\n"
                  "limits.tasks: must be an integer from 1 to 10000000\n"
                  "stroe: unknown key; the nearest one is store\n"
                  "agents[1].name: is missing\n"
                  "origins[0]: must be scheme://host, scheme://host:port or scheme://*.host, and "
                  "nothing else\n"
                  "models[0].base_url: is missing\n"
                  "models[0].model: is missing\n"
                  "agents[0] (a).command: is missing: a program to run\n");
}

static void test_config_syntax_error_says_where(void **state)
{
    struct config c;
    struct buf faults = {0};
    (void)state;

    write_file(json("{\n  'listen': sekrit\n}"));
    int n = config_load(file, NULL, &c, &faults);
    config_done(&c);
    bool right = strstr(faults.bytes, "line 2, column ") && !strstr(faults.bytes, "sekrit");
    buf_clear(&faults);
    write_file(json("{'listen':'127.0.0.1:1','listen':'127.0.0.1:2'}"));
    int twice = config_load(file, NULL, &c, &faults);
    config_done(&c);
    buf_clear(&faults);
    int missing = config_load("/nonexistent/file", NULL, &c, &faults);
    config_done(&c);
    bool said = strstr(faults.bytes, "/nonexistent/file: cannot be read: No such file") != NULL;
    buf_clear(&faults);
    int folder = config_load("/tmp", NULL, &c, &faults);
    config_done(&c);
    said = said && strstr(faults.bytes, "/tmp: cannot be read: ");
    buf_done(&faults);
    assert_int_equal(n + twice + missing + folder, 4);
    assert_true(right && said);
}

static void test_config_faults_hold_no_values(void **state)
{
    const char *const files[] = {
        json("{'listen':'sekrit','origins':['sekrit'],'trusted_proxies':['sekrit']}"),
        json("{'models':[{'name':'sekrit','base_url':'sekrit','api_key_env':['sekrit']}]}"),
        json("{'agents':[{'name':'a','tools':['sekrit'],'model':'sekrit'}]}"),
        json("{'agents':[{'name':'a','kind':'exec','env':{'A':['sekrit']}}]}"),
        json("{'auth':{'keys':[{'kid':'sekrit','alg':'sekrit'}],'cookie':'sek rit'}}"),
        "{\"x\":\"sekrit\"} sekrit",
        json("{'x':'sekrit"),
    };
    (void)state;

    for (size_t i = 0; i < countof(files); i++) {
        struct config c;
        struct buf faults = {0};
        write_file(files[i]);
        int n = config_load(file, NULL, &c, &faults);
        config_done(&c);
        bool shown = strstr(faults.bytes, "sek") != NULL;
        if (shown)
            print_error("%s", faults.bytes);
        buf_done(&faults);
        assert_true(n > 0 && !shown);
    }
}

/* --- keys that depend on each other ----------------------------------------------------------- */

static void test_config_print_masks_secrets_and_loads_again(void **state)
{
    struct config c = load(full, NULL);
    struct buf once = {0}, twice = {0};
    (void)state;

    config_print(&c, &once);
    config_done(&c);
    bool shown = strstr(once.bytes, "hidden") || strstr(once.bytes, "pass");
    bool masked = strstr(once.bytes, "http://***@h/v1") && strstr(once.bytes, json("'A': '***'"));
    c = load(once.bytes, NULL);
    config_print(&c, &twice);
    config_done(&c);
    bool same = str_eq(buf_str(&once), buf_str(&twice));
    buf_done(&once);
    buf_done(&twice);
    assert_true(masked && same);
    assert_false(shown);
}

static void test_config_print_keys_tells_each(void **state)
{
    struct buf out = {0};
    (void)state;

    config_print_keys(&out);
    bool told = strstr(out.bytes, "\nlimits.burst: ") &&
                strstr(out.bytes, "(an integer from 1 to 100000; default: 200)\n") &&
                strstr(out.bytes, "\nagents[].timeout_s: ") && strstr(out.bytes, "; required)\n");
    buf_done(&out);
    assert_true(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_defaults_are_those_of_the_manual),
        cmocka_unit_test(test_config_default_limits_are_those_of_the_manual),
        cmocka_unit_test(test_config_file_fills_everything_in),
        cmocka_unit_test(test_config_listen_takes_addresses),
        cmocka_unit_test(test_config_flags_win),
        cmocka_unit_test(test_config_data_follows_xdg),
        cmocka_unit_test(test_config_value_out_of_range_says_the_range),
        cmocka_unit_test(test_config_value_of_wrong_type_says_the_right_one),
        cmocka_unit_test(test_config_unknown_key_names_the_nearest),
        cmocka_unit_test(test_config_all_faults_are_told),
        cmocka_unit_test(test_config_syntax_error_says_where),
        cmocka_unit_test(test_config_faults_hold_no_values),
        cmocka_unit_test(test_config_print_masks_secrets_and_loads_again),
        cmocka_unit_test(test_config_print_keys_tells_each),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
