-- The demo warehouse: two years of a shop's orders. The data are the same on every machine.
--
-- Pseudorandom values come from the MD5 of a row's number, so they do not depend on the number of threads or the release of DuckDB.
-- Each division takes other digits of the same 64 bits. A value occurs in its list in proportion to its frequency.
--
-- - 5,000 customers in 10 countries, who signed up from 2020 to 2023; the last 200 of them have never ordered anything
-- - the products of the demo shop's catalogue, numbered in its order
-- - 40,000 orders from 2024-01-01 to 2025-12-31, numbered from 100001 by date; their number grows, and is largest before Christmas;
--   orders of the last two weeks are not delivered yet
-- - one to five items for each order, over 100,000 in all; the unit price is the price paid, after the discount of the order's coupon

CREATE SCHEMA shop;

CREATE TABLE shop.customers (
    customer_id BIGINT, name VARCHAR, segment VARCHAR, country VARCHAR, city VARCHAR, signed_up DATE
);

CREATE TABLE shop.products (
    product_id BIGINT, sku VARCHAR, name VARCHAR, category VARCHAR, price DECIMAL(12, 2), cost DECIMAL(12, 2)
);

CREATE TABLE shop.orders (
    order_id BIGINT, customer_id BIGINT, order_date DATE, ordered_at TIMESTAMP, status VARCHAR, channel VARCHAR, coupon VARCHAR,
    shipping DECIMAL(12, 2), shipped_on DATE
);

CREATE TABLE shop.order_items (
    order_id BIGINT, line BIGINT, product_id BIGINT, quantity BIGINT, unit_price DECIMAL(12, 2)
);

CREATE TEMP MACRO pick(list, number) AS list_extract(list, 1 + (number % len(list))::INT);

INSERT INTO shop.customers
WITH drawn AS (SELECT i, md5_number_lower('customer:' || i) AS h FROM range(1, 5001) AS r(i)),
     placed AS (
         SELECT *, pick([
             'Germany:Berlin', 'Germany:Berlin', 'Germany:Hamburg', 'Germany:Munich', 'Germany:Cologne', 'Germany:Leipzig',
             'France:Paris', 'France:Paris', 'France:Lyon', 'France:Marseille', 'Italy:Rome', 'Italy:Milan', 'Italy:Turin',
             'Spain:Madrid', 'Spain:Barcelona', 'Spain:Seville', 'Netherlands:Amsterdam', 'Netherlands:Rotterdam',
             'Poland:Warsaw', 'Poland:Krakow', 'Austria:Vienna', 'Belgium:Brussels', 'Denmark:Copenhagen', 'Ireland:Dublin'
         ], h // 1000000) AS place
         FROM drawn)
SELECT i,
       pick(['Ada', 'Ben', 'Clara', 'David', 'Elena', 'Felix', 'Greta', 'Hugo', 'Ines', 'Jonas', 'Karla', 'Leo', 'Mara', 'Nils',
             'Olga', 'Paul'], h)
       || ' ' ||
       pick(['Adler', 'Bauer', 'Costa', 'Dumont', 'Evers', 'Fischer', 'Garcia', 'Hansen', 'Jansen', 'Kowalski', 'Lopez', 'Moreau',
             'Novak', 'Rossi'], h // 100),
       CASE WHEN h // 10000 % 10 < 6 THEN 'consumer' WHEN h // 10000 % 10 < 9 THEN 'business' ELSE 'public' END,
       split_part(place, ':', 1),
       split_part(place, ':', 2),
       DATE '2020-01-01' + (h // 100000000 % 1461)::INT
FROM placed ORDER BY i;

INSERT INTO shop.products
WITH drawn AS (
         SELECT i, md5_number_lower('product:' || i) AS h, list_extract($products, i::INT) AS p
         FROM range(1, len($products) + 1) AS r(i))
SELECT i, p[1], p[2], p[3], p[4]::BIGINT / 100, (p[4]::BIGINT * (40 + h % 35) // 100)::BIGINT / 100 FROM drawn ORDER BY i;

INSERT INTO shop.orders
WITH drawn AS (SELECT i, md5_number_lower('order:' || i) AS h, md5_number_upper('order:' || i) AS g FROM range(40000) AS r(i)),
     dated AS (SELECT *, DATE '2024-01-01' + (731 * i * (160000 - i) // 4800000000)::INT AS day FROM drawn),
     placed AS (
         SELECT i, h, g,
                CASE WHEN h % 12 = 0 THEN make_date(year(day), 11, 15) + (h // 12 % 40)::INT ELSE day END AS day,
                h // 1000 % 10000 AS u
         FROM dated),
     stated AS (
         SELECT *,
                CASE WHEN day > DATE '2025-12-17' THEN CASE WHEN g % 3 = 0 THEN 'shipped' ELSE 'processing' END
                     WHEN g % 25 < 22 THEN 'delivered'
                     ELSE pick(['cancelled', 'returned', 'shipped'], g % 25 - 22) END AS status
         FROM placed)
SELECT 100000 + row_number() OVER (ORDER BY day, i),
       1 + u * u * 4800 // 100000000,
       day,
       day::TIMESTAMP + to_seconds((25200 + h // 10000000 % 57600)::BIGINT),
       status,
       CASE WHEN g // 100 % 20 < 12 THEN 'web' WHEN g // 100 % 20 < 17 THEN 'app' ELSE 'store' END,
       CASE WHEN g // 10000 % 5 = 0 THEN pick(['WELCOME10', 'WELCOME10', 'SPRING15', 'VIP20'], g // 100000) END,
       pick([0, 490, 490, 490, 990], g // 1000000) / 100,
       CASE WHEN status NOT IN ('cancelled', 'processing') THEN day + (1 + g // 100000000 % 5)::INT END
FROM stated ORDER BY 1;

INSERT INTO shop.order_items
WITH sized AS (
         SELECT order_id, order_date, coalesce(coupon, '') AS coupon,
                pick([1, 1, 2, 2, 2, 3, 3, 4, 5], md5_number_lower('items:' || order_id)) AS items
         FROM shop.orders),
     lines AS (SELECT *, unnest(range(1, items + 1)) AS line FROM sized),
     drawn AS (SELECT *, md5_number_lower('item:' || order_id || ':' || line) AS h FROM lines),
     chosen AS (
         SELECT *, 1 + (h % 10000) * (h % 10000) * len($products) // 100000000 AS product_id,
                pick([1, 1, 1, 1, 2, 2, 3, 5], h // 10000) AS quantity
         FROM drawn)
SELECT order_id, line, c.product_id, quantity,
       ((p.price * 100)::BIGINT
        * CASE WHEN year(order_date) = 2024 THEN 96 ELSE 100 END
        * CASE coupon WHEN 'WELCOME10' THEN 90 WHEN 'SPRING15' THEN 85 WHEN 'VIP20' THEN 80 ELSE 100 END // 10000)::BIGINT / 100
FROM chosen AS c JOIN shop.products AS p ON p.product_id = c.product_id ORDER BY order_id, line;

CREATE TABLE main.interlock_format (version INTEGER);
