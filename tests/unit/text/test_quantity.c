/* tests/unit/text/test_quantity.c: valid quantities, and equality of quantities. */
#include "common/text/quantity.h"
#include "tests/unit/test_runner.h"

TEST(quantity, text_is_parsed_to_whole_and_nano)
{
    static const struct {
        const char *text;
        uint64_t whole;
        uint32_t nano;
    } good[] = {
        {"0", 0, 0},
        {"0.0", 0, 0},
        {"0E", 0, 0},
        {"2", 2, 0},
        {"+2", 2, 0},
        {"2.", 2, 0},
        {".5", 0, 500000000},
        {"0.5", 0, 500000000},
        {"500m", 0, 500000000},
        {"1500m", 1, 500000000},
        {"250u", 0, 250000},
        {"7n", 0, 7},
        {"1k", 1000, 0},
        {"1e3", 1000, 0},
        {"1E3", 1000, 0},
        {"1E", 1000000000000000000, 0},
        {"1e9", 1000000000, 0},
        {"1e+9", 1000000000, 0},
        {"5e-1", 0, 500000000},
        {"1.5Gi", 1610612736, 0},
        {"4096Mi", 4294967296, 0},
        {"0.0000000001", 0, 1}, /* rounded up */
        {"1e-12", 0, 1},
        {"0.9999999999", 1, 0},
        {"18446744073709551600", 18446744073709551600u, 0},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct quantity q;
        assert_true(quantity_parse(good[i].text, &q));
        assert_true(q.whole == good[i].whole);
        assert_int_equal(q.nano, good[i].nano);
    }
}

TEST(quantity, other_text_is_refused)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "-1",
                                      "1 ",
                                      " 1",
                                      "1Kb",
                                      "1K",
                                      "1.2.3",
                                      "1e",
                                      "1e-",
                                      "1ex",
                                      ".",
                                      "m",
                                      "1mi",
                                      "1gi",
                                      "0x10",
                                      "1,5",
                                      "16Ei",
                                      "1e20",
                                      "1e99999999999",
                                      "99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct quantity q;
        if (quantity_parse(bad[i], &q)) {
            print_message("accepted: %s\n", bad[i]);
            fail();
        }
    }
}

TEST(quantity, label_of_a_resource_fits_by_value)
{
    assert_true(quantity_label_fits("cpu=0.5", "cpu=500m"));
    assert_true(quantity_label_fits("memory=1e9", "memory=1G"));
    assert_true(quantity_label_fits("memory=4096Mi", "memory=4Gi"));
    assert_true(quantity_label_fits("ephemeral-storage=1Ti", "ephemeral-storage=1024Gi"));
    assert_true(quantity_label_fits("memory=lots", "memory=lots"));
    assert_false(quantity_label_fits("cpu=2", "cpu=4"));
    assert_false(quantity_label_fits("memory=1G", "memory=1Gi"));
    assert_false(quantity_label_fits("memory=1", "cpu=1"));
    assert_false(quantity_label_fits("cpu=lots", "cpu=1"));
    /* Anything that is no quantity is compared as text. */
    assert_false(quantity_label_fits("version=1", "version=1.0"));
    assert_false(quantity_label_fits("cpus=1", "cpus=1.0"));
}
