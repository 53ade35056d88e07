"""Questions that people ask a warehouse: all of them only read, and run on the demo warehouse."""

# ruff: noqa: E501, S608 - queries are data here

from __future__ import annotations

__all__ = ["LEGAL"]

_REVENUE = "SUM(i.quantity * i.unit_price)"
_JOINED = "orders AS o JOIN order_items AS i ON i.order_id = o.order_id"

LEGAL: tuple[str, ...] = (
    # Plain ones
    "SELECT 1",
    "select 1;",
    "SELECT 1 AS one, 'two' AS two, 3.5 AS three, TRUE AS four, NULL AS five",
    "SELECT COUNT(*) FROM orders",
    "SELECT COUNT(*) AS n FROM shop.orders",
    "SELECT COUNT(*) AS n FROM `shop.orders`",
    "SELECT COUNT(*) AS n FROM `shop`.`orders`",
    "SELECT COUNT(*) AS n FROM SHOP.Orders",
    "(SELECT 1)",
    "SELECT * FROM customers LIMIT 5",
    "SELECT * FROM customers LIMIT 5 OFFSET 10",
    "SELECT c.* FROM customers AS c LIMIT 1",
    "SELECT * EXCEPT (name) FROM customers LIMIT 1",
    "SELECT * REPLACE (UPPER(name) AS name) FROM customers LIMIT 1",
    "SELECT DISTINCT country FROM customers ORDER BY country",
    "SELECT name FROM customers WHERE country = 'Germany' AND segment IN ('business', 'public') ORDER BY name LIMIT 3",
    "SELECT name FROM customers WHERE NOT (country = 'Germany' OR city <> 'Paris') LIMIT 3",
    "SELECT name FROM customers WHERE name LIKE 'A%' LIMIT 3",
    "SELECT name FROM customers WHERE name NOT LIKE '%a' LIMIT 3",
    "SELECT name FROM customers WHERE city = 'München' -- nobody lives there\n",
    "SELECT /* how many? */ COUNT(*) # all of them\nFROM orders",
    "SELECT COUNT(*) AS `Number of orders` FROM orders",
    "SELECT COUNT(*) AS `Umsatz (€)` FROM orders",
    "SELECT orders.order_id FROM orders WHERE orders.coupon IS NULL LIMIT 1",
    "SELECT order_id FROM orders WHERE coupon IS NOT NULL AND shipping BETWEEN 1 AND 5 LIMIT 1",
    "SELECT order_id FROM orders WHERE order_date >= '2025-01-01' AND order_date < DATE '2025-02-01' LIMIT 1",
    "SELECT order_id FROM orders WHERE order_date BETWEEN DATE '2025-01-01' AND DATE '2025-01-31' LIMIT 1",
    "SELECT -price, +price, price / 2, price * 2, price - 1, price + 1, -(-price) FROM products LIMIT 1",
    "SELECT order_id % 2, order_id & 1, order_id | 1, order_id ^ 1, ~order_id, order_id << 1, order_id >> 1 FROM orders LIMIT 1",
    "SELECT name || ' (' || city || ')' FROM customers LIMIT 1",
    # Groups
    "SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC",
    "SELECT status, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 2 DESC",
    "SELECT status, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY status",
    "SELECT country, COUNT(DISTINCT city) AS cities FROM customers GROUP BY country HAVING COUNT(*) > 500",
    "SELECT channel, status, COUNT(*) FROM orders GROUP BY ROLLUP (channel, status) ORDER BY 1, 2",
    "SELECT channel, status, COUNT(*) FROM orders GROUP BY CUBE (channel, status) ORDER BY 1, 2",
    "SELECT channel, status, COUNT(*), GROUPING(channel) FROM orders GROUP BY GROUPING SETS ((channel), (status), ()) ORDER BY 1, 2",
    "SELECT AVG(price), MIN(price), MAX(price), SUM(price), STDDEV(price), VARIANCE(price) FROM products",
    "SELECT COUNTIF(status = 'cancelled') / COUNT(*) AS share FROM orders",
    "SELECT SUM(IF(status = 'returned', 1, 0)) AS returned FROM orders",
    "SELECT APPROX_COUNT_DISTINCT(customer_id) FROM orders",
    "SELECT APPROX_QUANTILES(price, 4)[OFFSET(2)] AS median FROM products",
    "SELECT STRING_AGG(DISTINCT status, ', ' ORDER BY status) FROM orders",
    "SELECT ARRAY_AGG(DISTINCT status ORDER BY status) FROM orders",
    "SELECT ANY_VALUE(country) FROM customers WHERE country = 'Spain'",
    "SELECT MAX_BY(name, price), MIN_BY(name, price) FROM products",
    "SELECT LOGICAL_AND(price > 0), LOGICAL_OR(price > 500) FROM products",
    "SELECT CORR(price, cost), COVAR_POP(price, cost), VAR_POP(price), STDDEV_SAMP(price) FROM products",
    "SELECT BIT_AND(order_id), BIT_OR(order_id), BIT_XOR(order_id) FROM orders",
    # Joins
    f"SELECT {_REVENUE} AS revenue FROM {_JOINED}",
    f"SELECT {_REVENUE} FROM {_JOINED} WHERE o.status NOT IN ('cancelled', 'returned')",
    f"SELECT p.category, {_REVENUE} AS r FROM order_items AS i JOIN products AS p USING (product_id) GROUP BY p.category ORDER BY r DESC",
    "SELECT COUNT(*) FROM customers AS c LEFT JOIN orders AS o ON o.customer_id = c.customer_id WHERE o.order_id IS NULL",
    "SELECT COUNT(*) FROM orders AS o RIGHT JOIN customers AS c ON o.customer_id = c.customer_id",
    "SELECT COUNT(*) FROM customers AS c FULL OUTER JOIN orders AS o ON o.customer_id = c.customer_id",
    "SELECT COUNT(*) FROM customers AS c INNER JOIN orders AS o USING (customer_id)",
    "SELECT COUNT(*) FROM products AS a CROSS JOIN products AS b",
    "SELECT COUNT(*) FROM products AS a, products AS b WHERE a.price < b.price",
    "SELECT COUNT(*) FROM (orders AS o JOIN order_items AS i USING (order_id)) JOIN products AS p USING (product_id)",
    f"""SELECT c.country, p.category, {_REVENUE} AS revenue
        FROM customers AS c
        JOIN orders AS o ON o.customer_id = c.customer_id
        JOIN order_items AS i ON i.order_id = o.order_id
        JOIN products AS p ON p.product_id = i.product_id
        WHERE EXTRACT(YEAR FROM o.order_date) = 2025
        GROUP BY c.country, p.category
        ORDER BY revenue DESC
        LIMIT 10""",
    # Subqueries
    "SELECT name FROM products WHERE price = (SELECT MAX(price) FROM products)",
    "SELECT COUNT(*) FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders)",
    "SELECT COUNT(*) FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.customer_id = c.customer_id)",
    "SELECT COUNT(*) FROM customers AS c WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer_id = c.customer_id)",
    "SELECT name, (SELECT COUNT(*) FROM orders AS o WHERE o.customer_id = c.customer_id) AS n FROM customers AS c ORDER BY n DESC LIMIT 3",
    "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY customer_id)",
    "SELECT AVG(t.n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY customer_id) AS t",
    "SELECT ARRAY(SELECT DISTINCT channel FROM orders ORDER BY channel)",
    "SELECT ARRAY(SELECT AS STRUCT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status)",
    # WITH
    "WITH big AS (SELECT * FROM products WHERE price > 500) SELECT COUNT(*) FROM big",
    "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a CROSS JOIN b",
    "WITH orders AS (SELECT * FROM orders WHERE status = 'cancelled') SELECT COUNT(*) FROM orders",
    "WITH a AS (WITH b AS (SELECT 2 AS x) SELECT x FROM b) SELECT x FROM a",
    "SELECT * FROM (WITH a AS (SELECT 3 AS x) SELECT x FROM a) AS t",
    """WITH monthly AS (
           SELECT DATE_TRUNC(o.order_date, MONTH) AS month, SUM(i.quantity * i.unit_price) AS revenue
           FROM orders AS o JOIN order_items AS i USING (order_id) GROUP BY month)
       SELECT month, revenue, LAG(revenue) OVER (ORDER BY month) AS before, SAFE_DIVIDE(revenue, LAG(revenue) OVER (ORDER BY month)) - 1 AS growth
       FROM monthly ORDER BY month""",
    # Set operations
    "SELECT country FROM customers UNION DISTINCT SELECT category FROM products ORDER BY 1",
    "SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 3 ORDER BY x DESC LIMIT 2",
    "SELECT customer_id FROM customers EXCEPT DISTINCT SELECT customer_id FROM orders ORDER BY 1 LIMIT 5",
    "SELECT customer_id FROM customers INTERSECT DISTINCT SELECT customer_id FROM orders ORDER BY 1 LIMIT 5",
    "(SELECT 1 AS x) UNION ALL (SELECT 2 AS x)",
    # Windows
    "SELECT name, price, RANK() OVER (ORDER BY price DESC) AS place FROM products ORDER BY place LIMIT 5",
    "SELECT name, ROW_NUMBER() OVER (PARTITION BY category ORDER BY price DESC) AS place FROM products QUALIFY place = 1",
    "SELECT name FROM products QUALIFY DENSE_RANK() OVER (PARTITION BY category ORDER BY price DESC) <= 2",
    "SELECT order_date, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY order_date) AS total FROM orders GROUP BY order_date ORDER BY 1 LIMIT 5",
    "SELECT price, AVG(price) OVER (ORDER BY product_id ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS a FROM products LIMIT 5",
    "SELECT price, SUM(price) OVER (ORDER BY product_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM products LIMIT 5",
    "SELECT price, SUM(price) OVER w FROM products WINDOW w AS (PARTITION BY category ORDER BY price) LIMIT 5",
    "SELECT NTILE(4) OVER (ORDER BY price), PERCENT_RANK() OVER (ORDER BY price), CUME_DIST() OVER (ORDER BY price) FROM products LIMIT 5",
    "SELECT FIRST_VALUE(name) OVER (ORDER BY price), LAST_VALUE(name) OVER (ORDER BY price), NTH_VALUE(name, 2) OVER (ORDER BY price) FROM products LIMIT 5",
    "SELECT LEAD(price, 1, 0) OVER (ORDER BY product_id) FROM products LIMIT 5",
    "SELECT DISTINCT PERCENTILE_CONT(price, 0.5) OVER () FROM products",
    # Arrays and structs
    "SELECT * FROM UNNEST([1, 2, 3]) AS x",
    "SELECT x, o FROM UNNEST(['a', 'b']) AS x WITH OFFSET AS o ORDER BY o",
    "SELECT x FROM UNNEST(GENERATE_ARRAY(1, 10, 2)) AS x",
    "SELECT d FROM UNNEST(GENERATE_DATE_ARRAY('2025-01-01', '2025-01-07')) AS d",
    "SELECT d FROM UNNEST(GENERATE_DATE_ARRAY((SELECT MIN(order_date) FROM orders), (SELECT MAX(order_date) FROM orders), INTERVAL 1 MONTH)) AS d",
    "SELECT s.a, s.b FROM (SELECT STRUCT(1 AS a, 'x' AS b) AS s)",
    "SELECT [1, 2, 3][OFFSET(0)], ARRAY_LENGTH([1, 2]), ARRAY_TO_STRING(['a', 'b'], '-'), ARRAY_REVERSE([1, 2])",
    "SELECT 'consumer' IN UNNEST(['consumer', 'business'])",
    "SELECT word, COUNT(*) AS n FROM products CROSS JOIN UNNEST(SPLIT(name, ' ')) AS word GROUP BY word ORDER BY n DESC, word LIMIT 5",
    "SELECT word, COUNT(*) AS n FROM products, UNNEST(SPLIT(name, ' ')) AS word GROUP BY word ORDER BY n DESC, word LIMIT 5",
    # Conditions and casts
    "SELECT CASE WHEN price < 50 THEN 'cheap' WHEN price < 200 THEN 'fair' ELSE 'dear' END AS class, COUNT(*) FROM products GROUP BY class",
    "SELECT CASE channel WHEN 'web' THEN 1 ELSE 0 END FROM orders LIMIT 1",
    "SELECT COALESCE(coupon, 'none'), IFNULL(coupon, 'none'), NULLIF(status, 'shipped'), IF(coupon IS NULL, 0, 1) FROM orders LIMIT 1",
    "SELECT CAST(price AS INT64), CAST(price AS STRING), CAST(price AS FLOAT64), SAFE_CAST(sku AS INT64) FROM products LIMIT 1",
    "SELECT GREATEST(1, 2, 3), LEAST(1, 2, 3), ABS(-1), SIGN(-1), ROUND(2.345, 2), TRUNC(2.9), CEIL(2.1), FLOOR(2.9), MOD(7, 3), DIV(7, 2)",
    "SELECT SQRT(2), POW(2, 3), EXP(1), LN(2), LOG(8, 2), LOG10(100), SAFE_DIVIDE(1, 0), RAND() < 2",
    "SELECT name LIKE ANY ('A%', 'B%') FROM customers LIMIT 1",
    "SELECT coupon IS DISTINCT FROM 'VIP20' FROM orders LIMIT 1",
    # Dates
    "SELECT EXTRACT(YEAR FROM order_date) AS y, EXTRACT(MONTH FROM order_date) AS m, COUNT(*) FROM orders GROUP BY y, m ORDER BY y, m",
    "SELECT FORMAT_DATE('%Y-%m', order_date) AS month, COUNT(*) FROM orders GROUP BY month ORDER BY month",
    "SELECT FORMAT_DATE('%Y-Q%Q', order_date) AS quarter, COUNT(*) FROM orders GROUP BY quarter ORDER BY quarter",
    "SELECT DATE_TRUNC(order_date, WEEK(MONDAY)) AS week, COUNT(*) FROM orders GROUP BY week ORDER BY week LIMIT 3",
    "SELECT AVG(DATE_DIFF(shipped_on, order_date, DAY)) FROM orders",
    "SELECT COUNT(*) FROM orders WHERE order_date >= DATE_SUB(DATE '2025-12-31', INTERVAL 30 DAY)",
    "SELECT COUNT(*) FROM orders WHERE order_date >= DATE_ADD(DATE '2025-12-31', INTERVAL -1 MONTH)",
    "SELECT EXTRACT(HOUR FROM ordered_at) AS hour, COUNT(*) FROM orders GROUP BY hour ORDER BY hour",
    "SELECT EXTRACT(DAYOFWEEK FROM order_date) AS day, COUNT(*) FROM orders GROUP BY day ORDER BY day",
    "SELECT DATETIME_TRUNC(ordered_at, HOUR), DATETIME_DIFF(ordered_at, DATETIME '2024-01-01 00:00:00', HOUR) FROM orders LIMIT 1",
    "SELECT CURRENT_DATE(), CURRENT_TIMESTAMP(), CURRENT_DATETIME(), CURRENT_DATE",
    "SELECT DATE(ordered_at), LAST_DAY(order_date), PARSE_DATE('%Y%m%d', '20250101'), DATE(2025, 1, 1) FROM orders LIMIT 1",
    "SELECT TIMESTAMP_TRUNC(TIMESTAMP '2025-01-01 10:20:00+00', HOUR), TIMESTAMP_ADD(TIMESTAMP '2025-01-01 00:00:00+00', INTERVAL 1 HOUR)",
    # Text
    "SELECT UPPER(name), LOWER(name), LENGTH(name), SUBSTR(name, 1, 3), REPLACE(name, 'a', 'b'), TRIM(name), REVERSE(name) FROM customers LIMIT 1",
    "SELECT REGEXP_CONTAINS(name, r'^A.*r$'), REGEXP_EXTRACT(sku_, r'(\\d+)'), REGEXP_REPLACE(sku_, r'\\D', '') FROM (SELECT name, sku AS sku_ FROM products) LIMIT 1",
    "SELECT SPLIT(name, ' ')[SAFE_OFFSET(1)], STRPOS(name, ' '), STARTS_WITH(name, 'A'), ENDS_WITH(name, 'r'), CONCAT(name, city) FROM customers LIMIT 1",
    "SELECT FORMAT('%s: %d', name, customer_id), LPAD(city, 12, '.'), RPAD(city, 12), REPEAT('-', 3), INITCAP(city) FROM customers LIMIT 1",
    "SELECT TO_HEX(MD5(name)), TO_HEX(SHA256(name)), TO_BASE64(b'abc'), SAFE.SUBSTR(name, 1, 2), LEFT(name, 1), RIGHT(name, 1) FROM customers LIMIT 1",
    """SELECT 'it\\'s', "double", '''triple''', r'raw\\d', 'tab\\tnew\\nline', "say \\"hi\\"", 'DROP TABLE orders; --'""",
    "SELECT JSON_VALUE('{\"a\": {\"b\": \"x\"}}', '$.a.b'), TO_JSON_STRING(STRUCT(1 AS a)), JSON_QUERY('{\"a\": [1]}', '$.a')",
    "SELECT 'read_csv(\"/etc/passwd\")' AS text, 'ATTACH' AS word /* COPY orders TO 'x' */",
)
