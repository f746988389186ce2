package io.pyhudi

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog._

/** CREATE TABLE ... LIKE, as Spark hands it to a catalog since 4.2. */
private[pyhudi] trait TablesLike extends TableCatalog {

  override def createTableLike(ident: Identifier, info: TableInfo, source: Table): Table = {
    val stated = info.properties.asScala.toMap
    val named = stated.get(TableCatalog.PROP_PROVIDER)
    if (named.fold(source.isInstanceOf[HudiCatalogTable])(HudiDataSource.isNamedBy))
      HudiTableLike.create(this, ident, source, stated)
    else super.createTableLike(ident, info, source)
  }
}
